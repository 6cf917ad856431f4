"""The route of an instance's log, as a stream of lines.

The client may disconnect at any moment, even while no line comes, and the replica may stop. In both cases the driver
stops reading. A driver that cannot read the log fails before the answer begins, so that the answer can be an error.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from interlock.server.api.dependencies import ControlDep
from interlock.server.api.instance_models import INSTANCES
from interlock.server.api.record_models import RequestModel

router = APIRouter(prefix="/instances/{id}", tags=["instances"])

_FIRST_LINE_TIMEOUT = 1.0
"""Seconds to wait for the first line. After that time the answer begins without a line."""


class LogQuery(RequestModel):
    lines: int = Field(100, ge=0, le=10_000, description="The number of lines from the end of the log to begin with.")
    follow: bool = Field(False, description="Send new lines too, until the instance is gone.")


@router.get(
    "/logs",
    summary="Read the log of an instance",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": "LOG:  database system is ready to accept connections\n"}}}},
)
async def logs(id: str, query: Annotated[LogQuery, Query()], control: ControlDep) -> Response:  # noqa: A002
    instance = await INSTANCES.read(control, id)
    source = control.context.driver(instance.driver).logs(instance.id, lines=query.lines, follow=query.follow)
    stream = LineStream(source, control.stopping)
    await stream.begin()
    return stream


class LineStream(Response):
    media_type = "text/plain"

    def __init__(self, source: AsyncIterator[str], stopping: asyncio.Event) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._source = cast(AsyncGenerator[str, None], source)
        self._stopping = stopping
        self._next_line = asyncio.create_task(self._read_line())

    async def begin(self) -> None:
        """Wait for the first line. Raises the driver's error if the driver cannot read the log."""
        await asyncio.wait([self._next_line], timeout=_FIRST_LINE_TIMEOUT)
        if self._next_line.done():
            self._next_line.result()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ending = [asyncio.create_task(_wait_for_disconnect(receive)), asyncio.create_task(self._stopping.wait())]
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while (line := await self._line_before(ending)) is not None:
                await send({"type": "http.response.body", "body": f"{line}\n".encode(), "more_body": True})
                self._next_line = asyncio.create_task(self._read_line())
            await send({"type": "http.response.body", "body": b""})
        finally:
            for task in (self._next_line, *ending):
                task.cancel()
            await asyncio.wait([self._next_line, *ending])
            await self._source.aclose()

    async def _line_before(self, ending: "list[asyncio.Task[Any]]") -> str | None:
        """Returns the next line; None at the end of the log, or once a task of `ending` is done."""
        await asyncio.wait([self._next_line, *ending], return_when=asyncio.FIRST_COMPLETED)
        return None if any(task.done() for task in ending) else self._next_line.result()

    async def _read_line(self) -> str | None:
        return await anext(self._source, None)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
