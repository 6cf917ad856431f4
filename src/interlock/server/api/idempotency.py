"""Requests under an ``Idempotency-Key``: the library's own middleware, once there is a database to record answers in.

Refusals are not recorded: whoever is refused has changed nothing, and may ask again under the same key. Nor is an
answer with a credential in it, sealed or not.
"""

import re
from uuid import UUID, uuid5

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.integrations.idempotency.asgi import IdempotencyMiddleware
from interlock.integrations.idempotency.rules import HEADER
from interlock.server.api.limits import LARGEST
from interlock.server.startup import Startup

_SPACE = UUID("6b1f6d0e-5a0b-4c39-9f0c-2f1f7c0a8d11")
SOME_REFUSED = 207
"""Of several in one request: what was taken is found again, by its id, and what was refused may be asked for again."""
_METHODS = ("POST", "PUT", "DELETE")
_CREDENTIAL = re.compile("/api/v1/instances/[^/]+/credential")
"""And not the instance that somebody called so."""


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
                keep=lambda status: status < 400 and status != SOME_REFUSED,
                largest_request=LARGEST,
            )
        return self._keyed


def repeatable_id(request: Request, *which: str) -> str | None:
    """The id of what is made under the request's key, the same each time; None where there is no key. `which`: of all
    that this request makes.

    The record of an answer is written after what it tells of: if the replica dies in between, this finds what it made.
    """
    key = request.headers.get(HEADER)
    return key and str(uuid5(_SPACE, "\n".join([request.state.key, request.url.path, key, *which])))


def _is_recorded(path: str) -> bool:
    return path.startswith("/api/v1/") and not _CREDENTIAL.fullmatch(path)
