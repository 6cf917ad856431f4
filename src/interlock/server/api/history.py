"""What happened to an instance, and what its health checks found: the newest first."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from interlock.errors import BadSpec
from interlock.instances import records
from interlock.server.api import cursor
from interlock.server.api.instance_models import Asked
from interlock.server.api.running import Running, found

router = APIRouter(prefix="/instances/{id}", tags=["instances"])


class Event(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kind": "come_up", "recorded_at": "2026-01-31T12:00:04Z", "detail": ""}]}
    )

    kind: str
    recorded_at: datetime
    detail: str


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
    def place(self) -> records.Happening | None:
        if self.after is None:
            return None
        moment, kind = cursor.unpacked(self.after, "events", more=2)
        try:
            return records.Happening(kind, datetime.fromisoformat(moment).astimezone(UTC))
        except (ValueError, OverflowError) as error:
            raise BadSpec("The cursor in `after` is not the `next` of a page: leave it out to begin anew.") from error


@router.get("/events", summary="What happened to an instance")
async def events(id: str, wanted: Annotated[Since, Query()], control: Running) -> Events:  # noqa: A002
    async def read(connection: Any) -> list[records.Happening]:
        instance = (await found(control, connection, id)).id
        return await control.instances.records.events(connection, instance, wanted.limit + 1, after=wanted.place)

    happened = await control.pool.transact(read)
    shown = happened[: wanted.limit]
    following = _after(shown[-1]) if len(happened) > wanted.limit else None
    return Events(items=[Event(**vars(one)) for one in shown], next=following)


@router.get("/checks", summary="What its health checks found")
async def checks(id: str, wanted: Annotated[Newest, Query()], control: Running) -> Checks:  # noqa: A002
    async def read(connection: Any) -> list[records.Check]:
        instance = (await found(control, connection, id)).id
        return await control.instances.records.checks(connection, instance, wanted.limit)

    return Checks(items=[Check(**vars(one)) for one in await control.pool.transact(read)])


def _after(last: records.Happening) -> str:
    return cursor.packed("events", last.recorded_at.isoformat(), last.kind)
