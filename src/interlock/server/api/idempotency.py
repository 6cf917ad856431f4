"""Requests under an ``Idempotency-Key``: the library's own middleware, used as soon as the database is available.

Refusals are not recorded: a refused request has changed nothing, and may be repeated under the same key. Answers with
a credential are not recorded either, encrypted or not.
"""

import re
from uuid import UUID, uuid5

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.integrations.idempotency.asgi import IdempotencyMiddleware
from interlock.integrations.idempotency.rules import HEADER
from interlock.server.middleware import LARGEST_REQUEST
from interlock.server.startup import Startup

_NAMESPACE = UUID("6b1f6d0e-5a0b-4c39-9f0c-2f1f7c0a8d11")
SOME_REFUSED = 207
"""The status of the answer if some instances of a bulk request were refused. This answer is not recorded: a repeated
request finds the created instances by their ids, and tries the refused instances again."""
_METHODS = ("POST", "PUT", "DELETE")
_CREDENTIAL = re.compile("/api/v1/instances/[^/]+/credential")
"""The paths of credentials; the path of an instance named `credential` does not match."""


class ApiIdempotency:
    def __init__(self, app: ASGIApp, startup: Startup) -> None:
        self._app = app
        self._startup = startup
        self._middleware: IdempotencyMiddleware | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_recorded(scope["path"]) and (middleware := self._when_ready()):
            await middleware(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _when_ready(self) -> IdempotencyMiddleware | None:
        if self._middleware is None and (control := self._startup.control):
            self._middleware = IdempotencyMiddleware(
                self._app,
                control.locks,
                scope=lambda scope: scope["state"]["key"],
                methods=_METHODS,
                keep=lambda status: status < 400 and status != SOME_REFUSED,
                largest_request=LARGEST_REQUEST,
            )
        return self._middleware


def repeatable_id(request: Request, *which: str) -> str | None:
    """Returns the id for a record that the request creates: each repetition of the request gets the same id.

    Returns None for a request without a key. `which` distinguishes the records that one request creates. The answer is
    recorded after the record that the answer describes: if the replica dies in between, the repeated request finds that
    record by this id.
    """
    key = request.headers.get(HEADER)
    return key and str(uuid5(_NAMESPACE, "\n".join([request.state.key, request.url.path, key, *which])))


def _is_recorded(path: str) -> bool:
    return path.startswith("/api/v1/") and not _CREDENTIAL.fullmatch(path)
