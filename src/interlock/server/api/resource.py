"""The operations that the API has for every kind of record: find, show, change, list, and list its events."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from interlock.aggregate.events import RecordEvent
from interlock.aggregate.record import R
from interlock.aggregate.requests import Requests
from interlock.aggregate.table import Page
from interlock.server.api.dependencies import RecordChangeRequest, set_etag
from interlock.server.api.pagination import EventQuery, ListQuery, packed, page_of
from interlock.server.api.record_models import RecordModel
from interlock.server.control import Control

M = TypeVar("M", bound=RecordModel)


class Event(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "kind": "stop requested",
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
    actor: str = Field(description="`key:ID` for a request with that key, `interlock` for the control plane itself.")
    orchestration: str | None = Field(
        description="The orchestration whose step this was, or the orchestration that was requested."
    )


class Events(BaseModel):
    items: list[Event]
    next: str | None = Field(description="Send it as `after` to read the next page; null on the last page.")


class Resource(Generic[R, M]):
    """`requests` returns a replica's requests for this kind of record; `model` is the form of a record in answers;
    `normalized` returns the stored spelling of a name or an id."""

    def __init__(
        self, requests: Callable[[Control], Requests[R]], model: type[M], normalized: Callable[[str], str] = str.lower
    ) -> None:
        self._requests = requests
        self._model = model
        self._normalized = normalized

    async def found(self, control: Control, connection: Any, id: str) -> R:  # noqa: A002
        """Raises `RecordUnknown` if no record has this id or name."""
        records = self._requests(control).records
        if not id.isprintable():  # the database would refuse it as a parameter
            return records.one([], id)
        return await records.find(connection, self._normalized(id))

    async def read(self, control: Control, id: str) -> R:  # noqa: A002
        return await control.pool.transact(lambda connection: self.found(control, connection, id))

    async def show(self, control: Control, id: str, response: Response) -> M:  # noqa: A002
        record = await self.read(control, id)
        set_etag(response, record)
        return self._model.of(record)

    async def change(
        self,
        control: Control,
        change: RecordChangeRequest,
        id: str,  # noqa: A002
        verb: Callable[..., Awaitable[R]],
        *args: Any,
    ) -> M:
        """Call `verb` with the record, unless the record has changed since the revision that the request names."""
        table = self._requests(control).records
        record = await change.carry_out(
            control, table, lambda connection: self.found(control, connection, id), verb, *args
        )
        return self._model.of(record)

    async def page(self, control: Control, query: ListQuery, *order: str, **more: Any) -> tuple[list[M], str | None]:
        """Returns the items and the `next` of a page. `order` distinguishes this list's cursors from the cursors of
        other lists; `more` is passed to the table."""
        table = self._requests(control).records
        place = query.place(*order)

        async def read(connection: Any) -> Page[R]:
            return await table.page(connection, after=place, deleted=query.deleted, limit=query.limit, **more)

        return page_of(await control.pool.transact(read), self._model.of, *order)

    async def events(self, control: Control, id: str, query: EventQuery) -> Events:  # noqa: A002
        history = self._requests(control).records.events

        async def read(connection: Any) -> list[RecordEvent]:
            subject = (await self.found(control, connection, id)).id
            return await history.list(connection, subject, query.limit + 1, after=query.place)

        found = await control.pool.transact(read)
        shown = found[: query.limit]
        is_last = len(found) <= query.limit
        following = None if is_last else packed("events", shown[-1].recorded_at.isoformat(), shown[-1].kind)
        return Events(items=[Event(**vars(one)) for one in shown], next=following)
