"""The history of an instance or a backup, and the results of health checks: the newest first."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from interlock.aggregate import events as log
from interlock.aggregate.record import Record
from interlock.errors import BadSpec
from interlock.instances import records
from interlock.server.api import cursor
from interlock.server.api.record_models import Asked
from interlock.server.api.running import Running, found, found_backup
from interlock.server.control import Control

router = APIRouter()


class Event(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "kind": "stop asked for",
                    "recorded_at": "2026-01-31T12:00:04Z",
                    "detail": "",
                    "actor": "key:5d0c2a7b91e4",
                    "orchestration": "instance-0b8e5f0c-7f4e-4a52-9d3e-2f8f3a6f1c55-stop-1f2e3d4c",
                }
            ]
        }
    )

    kind: str
    recorded_at: datetime
    detail: str
    actor: str = Field(description="`key:ID`: a request with that key. `interlock`: nobody asked for this alone.")
    orchestration: str | None = Field(description="The one whose step this was, or the one that was asked for.")


class Events(BaseModel):
    items: list[Event]
    next: str | None = Field(description="For `after` of the next request; null: this was the last page.")


class Check(BaseModel):
    recorded_at: datetime
    healthy: bool
    milliseconds: float
    detail: str


class Checks(BaseModel):
    items: list[Check]


class Newest(Asked):
    limit: int = Field(50, ge=1, le=200)


class Since(Newest):
    after: str | None = Field(None, max_length=2000, description="The `next` of the page before.")

    @property
    def place(self) -> tuple[datetime, str] | None:
        if (place := cursor.place(self.after, "events")) is None:
            return None
        moment, kind = place
        try:
            return datetime.fromisoformat(moment).astimezone(UTC), kind
        except (ValueError, OverflowError) as error:
            raise BadSpec("The cursor in `after` is not the `next` of a page: leave it out to begin anew.") from error


@router.get("/instances/{id}/events", tags=["instances"], summary="What happened to an instance")
async def events(id: str, wanted: Annotated[Since, Query()], control: Running) -> Events:  # noqa: A002
    return await _events(control, control.instances.records.events, wanted, lambda on: found(control, on, id))


@router.get("/backups/{id}/events", tags=["backups"], summary="What happened to a backup")
async def backup_events(id: str, wanted: Annotated[Since, Query()], control: Running) -> Events:  # noqa: A002
    return await _events(control, control.backups.records.events, wanted, lambda on: found_backup(control, on, id))


@router.get("/instances/{id}/checks", tags=["instances"], summary="What its health checks found")
async def checks(id: str, wanted: Annotated[Newest, Query()], control: Running) -> Checks:  # noqa: A002
    async def read(connection: Any) -> list[records.Check]:
        instance = (await found(control, connection, id)).id
        return await control.instances.records.checks(connection, instance, wanted.limit)

    return Checks(items=[Check(**vars(one)) for one in await control.pool.transact(read)])


async def _events(
    control: Control, history: log.RecordHistory, wanted: Since, find: Callable[[Any], Awaitable[Record]]
) -> Events:
    async def read(connection: Any) -> list[log.RecordEvent]:
        return await history.list(connection, (await find(connection)).id, wanted.limit + 1, after=wanted.place)

    happened = await control.pool.transact(read)
    shown = happened[: wanted.limit]
    is_last = len(happened) <= wanted.limit
    following = None if is_last else cursor.packed("events", shown[-1].recorded_at.isoformat(), shown[-1].kind)
    return Events(items=[Event(**vars(one)) for one in shown], next=following)
