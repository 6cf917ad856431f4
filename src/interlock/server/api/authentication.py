"""Every path below ``/api`` needs a key, even a path that does not exist.

The key is looked up for each request, so a revoked key is refused from the next request on, by every replica.
"""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.errors import InterlockError
from interlock.keys.records import is_key
from interlock.server.control import Control
from interlock.server.problems import answer_to, problem
from interlock.server.startup import Startup

_GUARDED = "/api"


class Authentication:
    """Refuses a request without a valid key, and puts the id of a valid key into ``scope["state"]["key"]``."""

    def __init__(self, app: ASGIApp, startup: Startup) -> None:
        self._app = app
        self._startup = startup

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["path"] + "/").startswith(f"{_GUARDED}/"):
            answer = await self._refusal(scope)
            await (answer or self._app)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _refusal(self, scope: Scope) -> ASGIApp | None:
        control = self._startup.control
        if control is None:
            return problem(503, "This replica is still starting: send the request again in a moment.", code="starting")
        values = Headers(scope=scope).getlist("authorization")
        scheme, _, key = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not key:
            detail = "The request needs a key: send the key as `Authorization: Bearer KEY`."
            return _unauthorized("key_missing", detail, "Bearer")
        try:
            owner = await _owner(control, key.strip())
        except InterlockError as error:
            return answer_to(error)
        if owner is None:
            detail = "The key is unknown or was revoked: create another key with `interlock key create NAME`."
            return _unauthorized("key_wrong", detail, 'Bearer error="invalid_token"')
        scope.setdefault("state", {})["key"] = owner
        return None


async def _owner(control: Control, key: str) -> str | None:
    if not is_key(key):
        return None
    async with control.pool.session() as session:
        return await control.keys.use(session, key)


def _unauthorized(code: str, detail: str, challenge: str) -> ASGIApp:
    answer = problem(401, detail, code=code)
    answer.headers["WWW-Authenticate"] = challenge
    return answer
