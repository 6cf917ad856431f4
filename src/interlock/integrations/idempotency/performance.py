"""An ASGI application at work on one request, its answer held back until somebody says that it may go out."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any

from interlock.coordination.lease.grant import AsyncGrant
from interlock.integrations.idempotency.answer import Answer
from interlock.logs import events

log = events(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Wire:
    """To the client, who may be gone: then `send` does nothing."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self._send = send
        self.is_cut = False

    def ended(self, task: "asyncio.Task[None]") -> None:
        if self.is_cut and not task.cancelled() and (error := task.exception()):  # nobody else hears of it
            log.error("idempotency.failed", exc_info=error)

    async def send(self, message: Message) -> None:
        if not self.is_cut:
            try:
                await self._send(message)
            except OSError:  # how newer servers say that the client has gone
                self.is_cut = True


class Performance:
    """The application at work on one request, in a task of its own: what it does after its answer holds up nobody.

    Its answer is collected. Once that is more than can be kept, it is passed on; except for its last part, which the
    application cannot get rid of before `finish`.
    """

    def __init__(self, app: App, scope: Scope, body: bytes, wire: Wire, most: int) -> None:
        self._app = app
        self._scope = scope
        self._body: bytes | None = body
        self._wire = wire
        self._most = most
        self._start: Message | None = None
        self._has_started = False
        self._parts: list[bytes] = []
        self._size = 0
        self._streams = False
        self._complete = asyncio.Event()
        self._finished = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def run(self, grant: AsyncGrant) -> Answer:
        """Its answer, when that is complete. What it raises before that is raised."""
        scope = {**self._scope, "interlock.grant": grant, "extensions": _harmless(self._scope.get("extensions"))}
        self._task = asyncio.create_task(_awaited(self._app(scope, self._receive, self._send)))
        complete = asyncio.create_task(self._complete.wait())
        try:
            await asyncio.wait([self._task, complete], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the lease is lost: another may carry it out from now on
            await self.abort()
            raise
        finally:
            complete.cancel()
        if not self._complete.is_set():
            self._task.result()
            raise RuntimeError("The application ended without an answer.")
        assert self._start is not None
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._start["headers"]]
        return Answer(self._start["status"], headers, None if self._streams else b"".join(self._parts))

    async def finish(self) -> None:
        """Send what was held back, and wait for the application's end."""
        assert self._task is not None
        if not self._has_started:
            await self._wire.send(self._start or {})
        await self._wire.send({"type": "http.response.body", "body": b"".join(self._parts), "more_body": False})
        self._finished.set()
        await self._task

    async def abort(self) -> None:
        """Nobody wants it any more."""
        self._finished.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # seen

    async def tell(self, answer: Answer) -> None:
        """Something else than what the application answers; if a part of that has gone out already, nothing."""
        if not self._has_started:
            await send_answer(self._wire.send, answer)

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._finished.wait()  # until then it is not the application's concern whether the client is there
        return await self._wire.receive()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = {**message, "headers": list(message.get("headers", ()))}
        elif message["type"] == "http.response.body" and self._start is not None and not self._complete.is_set():
            await self._collect(message)

    async def _collect(self, message: Message) -> None:
        part = bytes(message.get("body", b""))
        self._size += len(part)
        self._streams = self._streams or self._size > self._most
        if self._streams and self._parts:
            await self._flush()
        self._parts.append(part)
        if not message.get("more_body", False):
            self._complete.set()
            await self._finished.wait()

    async def _flush(self) -> None:
        """What is too large to be kept goes out as it comes."""
        if not self._has_started:
            self._has_started = True
            await self._wire.send(self._start or {})
        parts, self._parts = self._parts, []
        await self._wire.send({"type": "http.response.body", "body": b"".join(parts), "more_body": True})


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def send_answer(send: Send, answer: Answer) -> None:
    body = answer.body or b""
    headers = [(name.encode("latin-1").lower(), value.encode("latin-1")) for name, value in answer.headers]
    if answer.status != HTTPStatus.NO_CONTENT:  # which must not have one
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _harmless(extensions: Mapping[str, Any] | None) -> dict[str, Any]:
    """Without those by which an answer would not come as a body."""
    return {name: value for name, value in (extensions or {}).items() if not name.startswith("http.response.")}
