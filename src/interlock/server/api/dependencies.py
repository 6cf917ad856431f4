"""The dependencies of routes: this replica's control plane, and the request that changes a record."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from starlette.exceptions import HTTPException

from interlock.aggregate.record import R, Record
from interlock.aggregate.table import RecordTable
from interlock.errors import BadSpec, RecordChanged
from interlock.server.control import Control
from interlock.server.startup import Startup

_MOST_DIGITS = 18


def ready_control(request: Request) -> Control:
    """Refuses requests while the replica starts or stops. During the start, `Authentication` refuses them already."""
    startup: Startup = request.app.state.startup
    control = startup.control
    if control is None or control.stopping.is_set():
        raise HTTPException(
            503, "This replica is starting or stopping: send the request again in a moment.", {"Retry-After": "1"}
        )
    return control


class ChangeRequest:
    """A request that changes something. `actor` is ``key:ID``, with the id of the request's API key."""

    def __init__(self, request: Request, response: Response) -> None:
        self.actor = f"key:{request.state.key}"
        self._response = response

    def with_etag(self, record: R) -> R:
        """Put the record's revision into the headers of the answer. Returns the record."""
        set_etag(self._response, record)
        return record


class RecordChangeRequest(ChangeRequest):
    """A request that changes one record. With `If-Match` it changes only the named revision of the record."""

    def __init__(
        self,
        request: Request,
        response: Response,
        if_match: Annotated[
            str | None,
            Header(
                description="The `ETag` of an earlier answer: the request is refused if the record has changed since."
            ),
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
        """Call `verb` with the record from `find`. Raises `RecordChanged` if `If-Match` names another revision."""

        async def work(connection: Any) -> R:
            id = (await find(connection)).id  # noqa: A001
            if self._revision is not None:
                await self.check(await table.lock(connection, id))
            return await verb(connection, id, *args, by=self.actor)

        return self.with_etag(await control.carry_out(work))

    async def check(self, record: Record) -> None:
        """Raises `RecordChanged` if the request names another revision. The caller has to lock the record."""
        if self._revision is not None and record.revision != self._revision:
            raise RecordChanged(
                f"{record.label} has changed since its revision {self._revision} was read: "
                "read the record again, and repeat the request if it still applies.",
                revision=record.revision,
            )


def set_etag(response: Response, record: Record) -> None:
    response.headers["ETag"] = f'"{record.revision}"'


def _revision(if_match: str | None) -> int | None:
    """Returns the revision in the header; None allows any revision."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix('"').removesuffix('"')
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadSpec('If-Match has to be the ETag of an answer, such as "7", or *.')
    return int(text)


ControlDep = Annotated[Control, Depends(ready_control)]
ChangeDep = Annotated[ChangeRequest, Depends()]
RecordChangeDep = Annotated[RecordChangeRequest, Depends()]
