"""The run of an ASGI application for one request, whose answer is held back until the answer is recorded."""

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


class ClientConnection:
    """The connection to the client. Once the client has disconnected, `send` does nothing."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self._send = send
        self.is_closed = False

    def ended(self, task: "asyncio.Task[None]") -> None:
        if self.is_closed and not task.cancelled() and (error := task.exception()):  # no caller receives it any more
            log.error("idempotency.failed", exc_info=error)

    async def send(self, message: Message) -> None:
        if not self.is_closed:
            try:
                await self._send(message)
            except OSError:  # newer servers raise this when the client has disconnected
                self.is_closed = True


class ApplicationRun:
    """The application runs in a task of its own, so that its work after the answer delays no other request.

    The answer is collected. Once the answer is larger than `most`, its parts are passed on, except the last part, which
    the application can send only after `finish`.
    """

    def __init__(self, app: App, scope: Scope, body: bytes, client: ClientConnection, most: int) -> None:
        self._app = app
        self._scope = scope
        self._body: bytes | None = body
        self._client = client
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
        """Returns the answer when it is complete. Raises the error that the application raises before that."""
        scope = {
            **self._scope,
            "interlock.grant": grant,
            "extensions": _without_response_extensions(self._scope.get("extensions")),
        }
        self._task = asyncio.create_task(_awaited(self._app(scope, self._receive, self._send)))
        complete = asyncio.create_task(self._complete.wait())
        try:
            await asyncio.wait([self._task, complete], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the lease is lost: another process may carry out the request from now on
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
        """Send the part that was held back, and wait for the end of the application."""
        assert self._task is not None
        if not self._has_started:
            await self._client.send(self._start or {})
        await self._client.send({"type": "http.response.body", "body": b"".join(self._parts), "more_body": False})
        self._finished.set()
        await self._task

    async def abort(self) -> None:
        """Cancel the application: its answer is no longer needed."""
        self._finished.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # retrieved, so that asyncio does not log it

    async def send_instead(self, answer: Answer) -> None:
        """Send `answer` instead of the application's answer, unless a part of the latter has been sent already."""
        if not self._has_started:
            await send_answer(self._client.send, answer)

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._finished.wait()  # until then the application does not learn whether the client is connected
        return await self._client.receive()

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
        """Pass on the parts of an answer that is too large to be kept."""
        if not self._has_started:
            self._has_started = True
            await self._client.send(self._start or {})
        parts, self._parts = self._parts, []
        await self._client.send({"type": "http.response.body", "body": b"".join(parts), "more_body": True})


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def send_answer(send: Send, answer: Answer) -> None:
    body = answer.body or b""
    headers = [(name.encode("latin-1").lower(), value.encode("latin-1")) for name, value in answer.headers]
    if answer.status != HTTPStatus.NO_CONTENT:  # such an answer must not have a length
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _without_response_extensions(extensions: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the extensions without those that let an application answer by anything other than a body."""
    return {name: value for name, value in (extensions or {}).items() if not name.startswith("http.response.")}
