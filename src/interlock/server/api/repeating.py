"""Requests under an ``Idempotency-Key``: the library's own middleware, once there is a database to record answers in.

Refusals are not recorded: whoever is refused has changed nothing, and may ask again under the same key. Nor is an
answer with a credential in it, sealed or not.
"""

from uuid import UUID, uuid5

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.integrations.idempotency.asgi import IdempotencyMiddleware
from interlock.integrations.idempotency.rules import HEADER
from interlock.server.api.limits import LARGEST
from interlock.server.startup import Startup

_SPACE = UUID("6b1f6d0e-5a0b-4c39-9f0c-2f1f7c0a8d11")
_METHODS = ("POST", "PUT", "DELETE")


class Repeating:
    def __init__(self, app: ASGIApp, startup: Startup) -> None:
        self._app = app
        self._startup = startup
        self._keyed: IdempotencyMiddleware | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_recorded(scope["path"]) and (keyed := self._middleware()):
            await keyed(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _middleware(self) -> IdempotencyMiddleware | None:
        if self._keyed is None and (control := self._startup.control):
            self._keyed = IdempotencyMiddleware(
                self._app,
                control.locks,
                scope=lambda scope: scope["state"]["key"],
                methods=_METHODS,
                keep=lambda status: status < 400,
                largest_request=LARGEST,
            )
        return self._keyed


def repeatable_id(request: Request, name: str) -> str | None:
    """The id of what is made under the request's key, the same each time; None where there is no key.

    The record of an answer is written after what it tells of: if the replica dies in between, this finds what it made.
    """
    key = request.headers.get(HEADER)
    return key and str(uuid5(_SPACE, "\n".join([request.state.key, request.url.path, key, name])))


def _is_recorded(path: str) -> bool:
    return path.startswith("/api/v1/") and not path.endswith("/credential")
