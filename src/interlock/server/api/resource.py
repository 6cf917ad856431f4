"""A kind of record behind the routes of the API: found, shown, changed, and its history."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from interlock.aggregate.events import RecordEvent
from interlock.aggregate.record import R
from interlock.aggregate.requests import Requests
from interlock.aggregate.table import Page
from interlock.errors import BadSpec
from interlock.server.api import cursor
from interlock.server.api.change import Change, tag
from interlock.server.api.record_models import Asked, Listed, RecordModel, page_of
from interlock.server.control import Control

M = TypeVar("M", bound=RecordModel)


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


class Resource(Generic[R, M]):
    """`requests` of a replica, the `model` that shows a record, and the spelling in which names and ids are kept."""

    def __init__(
        self, requests: Callable[[Control], Requests[R]], model: type[M], spelled: Callable[[str], str] = str.lower
    ) -> None:
        self._requests = requests
        self._model = model
        self._spelled = spelled

    async def found(self, control: Control, connection: Any, id: str) -> R:  # noqa: A002
        """Raises `RecordUnknown`."""
        records = self._requests(control).records
        if not id.isprintable():  # the database would refuse to look for it
            return records.one([], id)
        return await records.find(connection, self._spelled(id))

    async def read(self, control: Control, id: str) -> R:  # noqa: A002
        return await control.pool.transact(lambda connection: self.found(control, connection, id))

    async def show(self, control: Control, id: str, response: Response) -> M:  # noqa: A002
        record = await self.read(control, id)
        tag(response, record)
        return self._model.of(record)

    async def change(
        self,
        control: Control,
        change: Change,
        id: str,  # noqa: A002
        verb: Callable[..., Awaitable[R]],
        *args: Any,
    ) -> M:
        """`verb` of the record, unless that has changed since the revision of the request."""
        table = self._requests(control).records
        record = await change.carry_out(
            control, table, lambda connection: self.found(control, connection, id), verb, *args
        )
        return self._model.of(record)

    async def page(self, control: Control, wanted: Listed, *order: str, **more: Any) -> tuple[list[M], str | None]:
        """The items and the `next` of a page. `order` tells its cursors from others; `more` goes to the table."""
        table = self._requests(control).records
        place = wanted.place(*order)

        async def read(connection: Any) -> Page[R]:
            return await table.page(connection, after=place, deleted=wanted.deleted, limit=wanted.limit, **more)

        return page_of(await control.pool.transact(read), self._model.of, *order)

    async def events(self, control: Control, id: str, wanted: Since) -> Events:  # noqa: A002
        history = self._requests(control).records.events

        async def read(connection: Any) -> list[RecordEvent]:
            subject = (await self.found(control, connection, id)).id
            return await history.list(connection, subject, wanted.limit + 1, after=wanted.place)

        happened = await control.pool.transact(read)
        shown = happened[: wanted.limit]
        is_last = len(happened) <= wanted.limit
        following = None if is_last else cursor.packed("events", shown[-1].recorded_at.isoformat(), shown[-1].kind)
        return Events(items=[Event(**vars(one)) for one in shown], next=following)
