"""The shared part of every request that changes a record: its actor, and the revision that it was made up from."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import fastapi
from fastapi import Depends, Header, Response

from interlock.aggregate.record import R, Record
from interlock.aggregate.table import RecordTable
from interlock.errors import BadSpec, RecordChanged
from interlock.server.control import Control


class ChangeRequest:
    """A request that changes something. `actor` is the key that it came with."""

    def __init__(self, request: fastapi.Request, response: Response) -> None:
        self.actor = f"key:{request.state.key}"
        self._response = response

    def told(self, record: R) -> R:
        """With its revision in the answer's headers."""
        tag(self._response, record)
        return record


class Change(ChangeRequest):
    """A request that changes one record, perhaps only a revision of it."""

    def __init__(
        self,
        request: fastapi.Request,
        response: Response,
        if_match: Annotated[
            str | None, Header(description="The `ETag` of an answer: the request is refused if the record has changed.")
        ] = None,
    ) -> None:
        super().__init__(request, response)
        self._revision = _revision(if_match)

    async def carry_out(
        self,
        control: Control,
        table: RecordTable[R],
        find: Callable[[Any], Awaitable[Record]],
        verb: Callable[..., Awaitable[R]],
        *args: Any,
    ) -> R:
        """`verb` of the record that `find` finds, unless that has changed. Raises `RecordChanged`."""

        async def work(connection: Any) -> R:
            id = (await find(connection)).id  # noqa: A001
            if self._revision is not None:
                await self.check(await table.lock(connection, id))
            return await verb(connection, id, *args, by=self.actor)

        return self.told(await control.carry_out(work))

    async def check(self, record: Record) -> None:
        """`record` is locked. Raises `RecordChanged`."""
        if self._revision is not None and record.revision != self._revision:
            raise RecordChanged(
                f"{record.label} has changed since its revision {self._revision} was read: read it, and ask again.",
                revision=record.revision,
            )


Requested = Annotated[ChangeRequest, Depends()]
Changing = Annotated[Change, Depends()]


_MOST_DIGITS = 18


def tag(response: Response, record: Record) -> None:
    response.headers["ETag"] = f'"{record.revision}"'


def _revision(if_match: str | None) -> int | None:
    """None: any."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix('"').removesuffix('"')
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadSpec('If-Match has to be the ETag of an answer, such as "7", or *.')
    return int(text)
