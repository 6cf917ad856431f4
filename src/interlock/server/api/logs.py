"""The log of an instance as a stream of lines.

Who reads may go at any moment, also while nothing is written; and the replica may stop. Either ends the driver's
reading. Whether there is a log at all is known before the answer begins, so that it can still be another.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response
from pydantic import Field
from starlette.types import Receive, Scope, Send

from interlock.server.api.dependencies import Running
from interlock.server.api.instance_models import INSTANCES
from interlock.server.api.record_models import Asked

router = APIRouter(prefix="/instances/{id}", tags=["instances"])

_SILENCE = 1.0
"""Seconds that the first line may take before the answer begins without it."""


class Excerpt(Asked):
    lines: int = Field(100, ge=0, le=10_000, description="So many of the last ones.")
    follow: bool = Field(False, description="Go on with what is written, until the instance is gone.")


@router.get(
    "/logs",
    summary="Read the log of an instance",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": "LOG:  database system is ready to accept connections\n"}}}},
)
async def logs(id: str, wanted: Annotated[Excerpt, Query()], control: Running) -> Response:  # noqa: A002
    instance = await INSTANCES.read(control, id)
    source = control.context.driver(instance.driver).logs(instance.id, lines=wanted.lines, follow=wanted.follow)
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
        self._line = asyncio.create_task(self._next())

    async def begin(self) -> None:
        """Raises what the driver has against it."""
        await asyncio.wait([self._line], timeout=_SILENCE)
        if self._line.done():
            self._line.result()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ending = [asyncio.create_task(_gone(receive)), asyncio.create_task(self._stopping.wait())]
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while (line := await self._line_before(ending)) is not None:
                await send({"type": "http.response.body", "body": f"{line}\n".encode(), "more_body": True})
                self._line = asyncio.create_task(self._next())
            await send({"type": "http.response.body", "body": b""})
        finally:
            for task in (self._line, *ending):
                task.cancel()
            await asyncio.wait([self._line, *ending])
            await self._source.aclose()

    async def _line_before(self, ending: "list[asyncio.Task[Any]]") -> str | None:
        """The next one; None if there is no more, or nobody to read it."""
        await asyncio.wait([self._line, *ending], return_when=asyncio.FIRST_COMPLETED)
        return None if any(task.done() for task in ending) else self._line.result()

    async def _next(self) -> str | None:
        return await anext(self._source, None)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
