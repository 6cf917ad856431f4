"""The ``Idempotency-Key`` for any ASGI application.

::

    app = IdempotencyMiddleware(app, locks, scope="authorization")
    app.add_middleware(IdempotencyMiddleware, locks=locks, scope=lambda scope: scope["user"].identity)    # Starlette

A request under a key is carried out to its end even if its client disconnects, because the client will repeat the
request. The answer is held back until it is recorded. If an answer is too large to be recorded, only its last part is
held back, until the record says that the answer was not kept.
"""

import asyncio
from collections.abc import Callable
from typing import Unpack

from interlock.coordination.root import AsyncInterlock
from interlock.errors import ConfigurationError
from interlock.integrations.idempotency import problems
from interlock.integrations.idempotency.application_run import (
    App,
    ApplicationRun,
    ClientConnection,
    Receive,
    Scope,
    Send,
    send_answer,
)
from interlock.integrations.idempotency.rules import (
    HEADER,
    IdempotentRun,
    KeyedRequest,
    MalformedKey,
    RuleOptions,
    Rules,
    read_key,
)

Identity = str | Callable[[Scope], object] | None


class IdempotencyMiddleware:
    """`scope` identifies the client that a key belongs to: the name of a header, or a function of the ASGI scope. With
    None all clients share all keys, and a client that guesses a key gets the answer that was recorded under the key.

    The application finds the grant in ``scope["interlock.grant"]``.
    """

    def __init__(self, app: App, locks: AsyncInterlock, *, scope: Identity, **rules: Unpack[RuleOptions]) -> None:
        if not isinstance(locks, AsyncInterlock):
            raise ConfigurationError(
                "An ASGI application runs on an event loop: give its middleware an AsyncInterlock."
            )
        if not (scope is None or isinstance(scope, str) or callable(scope)):
            raise ConfigurationError(f"scope={scope!r}: give the name of a header, a function of the scope, or None.")
        self._app = app
        self._locks = locks
        self._identity = scope
        self._rules = Rules(**rules)
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._rules.counts_for(scope["method"]):
            await self._app(scope, receive, send)
            return
        try:
            key = read_key(_values(scope, HEADER))
        except MalformedKey as error:
            await send_answer(send, problems.key_malformed(str(error)))
            return
        if key is not None:
            await self._keyed(scope, receive, send, key)
        elif self._rules.required:
            await send_answer(send, problems.key_missing())
        else:
            await self._app(scope, receive, send)

    async def _keyed(self, scope: Scope, receive: Receive, send: Send, key: str) -> None:
        body = await _read(receive, self._rules.largest_request)
        if body is None:
            return  # the client disconnected before its request was complete
        if len(body) > self._rules.largest_request:
            await send_answer(send, problems.too_large(self._rules.largest_request))
            return
        request = KeyedRequest(
            self._client_of(scope),
            scope["method"],
            scope["path"],
            key,
            scope.get("query_string", b"").decode("latin-1"),
            "".join(_values(scope, "Content-Type")),
            body,
        )
        client = ClientConnection(receive, send)
        task = asyncio.create_task(self._answer(scope, request, client))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(client.ended)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:  # servers cancel when the client disconnects; the request goes on
            client.is_closed = True
            raise

    async def _answer(self, scope: Scope, request: KeyedRequest, client: ClientConnection) -> None:
        application = ApplicationRun(self._app, scope, request.body, client, self._rules.largest_answer)
        run = IdempotentRun(self._rules, self._rules.once(self._locks, request), application.run)
        try:
            answer = await run.result(self._locks.engine())
        except BaseException:
            await application.abort()
            raise
        if answer is run.answer:
            await application.finish()
        else:
            await application.abort()
            await application.send_instead(answer)

    def _client_of(self, scope: Scope) -> object:
        if isinstance(self._identity, str):
            return "\n".join(_values(scope, self._identity)) or None
        return None if self._identity is None else self._identity(scope)


async def _read(receive: Receive, most: int) -> bytes | None:
    """Returns the body, or a little more than its first `most` bytes; None if the client has disconnected."""
    parts, size = [], 0
    while size <= most:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def _values(scope: Scope, header: str) -> list[str]:
    wanted = header.lower().encode("latin-1")
    return [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == wanted]
