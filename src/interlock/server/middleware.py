"""ASGI middleware for every request: the headers of answers, the size of requests, and answers when a replica stops."""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.server.problems import problem

LARGEST_REQUEST = 1024 * 1024
"""Bytes of the largest body of a request. A request for fifty instances with all their parameters is smaller."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ResponseHeaders:
    """Adds the security headers to every answer, and forbids caching except for static files."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"  # everything else describes the current moment
            await send(message)

        await self._app(scope, receive, send_with_headers)


class RequestSizeLimit:
    """Answers a request whose body is larger than `LARGEST_REQUEST` with 413."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LARGEST_REQUEST or not announced.isdigit() or int(announced) > LARGEST_REQUEST:
                raise HTTPException(413, f"A request may have {LARGEST_REQUEST} bytes at most: send a smaller one.")
            return message

        await self._app(scope, receive_limited, send)


class StoppingAnswer:
    """Answers the requests that a stopping replica cannot finish.

    The server cancels these requests at the end of the grace period. Their outcome is unknown then: such a request may
    be in its very last step. So the answer asks the client to repeat the request, which is safe under an
    Idempotency-Key.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def send_and_record(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_record)
        except asyncio.CancelledError:
            if not has_started:  # otherwise the end of the connection tells the client
                detail = (
                    "This replica is stopping and has not finished the request: send the request again, "
                    "under the same Idempotency-Key."
                )
                await problem(503, detail, code="stopping")(scope, receive, send)
