"""Nothing below ``/api`` without a key, whether there is something at that path or not.

The key is looked up for each request, so a revoked one opens nothing from the next request on, at any replica.
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
    """The id of the key is in ``scope["state"]["key"]`` then."""

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
            return problem(503, "This replica is still starting: ask again in a moment.", code="starting")
        given = Headers(scope=scope).getlist("authorization")
        scheme, _, key = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not key:
            return _unauthorized("key_missing", "This needs a key: send it as `Authorization: Bearer KEY`.", "Bearer")
        try:
            owner = await _owner(control, key.strip())
        except InterlockError as error:
            return answer_to(error)
        if owner is None:
            said = "This key is not known here, or was revoked: make one with `interlock key create`."
            return _unauthorized("key_wrong", said, 'Bearer error="invalid_token"')
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
