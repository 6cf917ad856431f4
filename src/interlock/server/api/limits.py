"""How large a request may be."""

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 1024 * 1024
"""Bytes: fifty instances with all their parameters are less."""


class Limits:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = Headers(scope=scope).get("content-length", "0")
        counted = 0

        async def receive_so_much() -> Message:
            nonlocal counted
            message = await receive()
            counted += len(message.get("body", b""))
            if counted > LARGEST or not told.isdigit() or int(told) > LARGEST:
                raise HTTPException(413, f"A request may have {LARGEST} bytes at most.")
            return message

        await self._app(scope, receive_so_much, send)
