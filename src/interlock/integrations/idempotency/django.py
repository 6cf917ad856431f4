"""The ``Idempotency-Key`` for Django, in synchronous and asynchronous stacks.

::

    MIDDLEWARE = [..., "interlock.integrations.idempotency.django.IdempotencyMiddleware"]
    INTERLOCK = {"IDEMPOTENCY": {"SCOPE": "shop.identity.of_request", "REQUIRED": True}}

``SCOPE`` identifies the client that a key belongs to: the name of a header, a function of the request or its dotted
path, or None. The other entries are the fields of `Rules` in capitals. The view finds its grant in
``request.interlock_grant``.

A streaming answer is passed on and not kept: a repeated request gets an error with this explanation.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse
from django.utils.module_loading import import_string

from interlock.bridge import in_caller_until_done
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.sync.grant import Grant
from interlock.errors import ConfigurationError
from interlock.integrations.django.configuration import own_settings
from interlock.integrations.django.leases import async_locks, locks
from interlock.integrations.idempotency import problems
from interlock.integrations.idempotency.answer import Answer
from interlock.integrations.idempotency.rules import (
    HEADER,
    IdempotentRun,
    KeyedRequest,
    MalformedKey,
    RuleOptions,
    Rules,
    read_key,
)

Identity = Callable[[Any], object]


class IdempotencyMiddleware:
    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response
        self._rules, self._whose = configured_rules()
        self._running: set[asyncio.Task[Answer]] = set()
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        return self._respond_async(request) if self._is_async else self._respond(request)

    def _respond(self, request: Any) -> Any:
        keyed = self._keyed(request)
        if not isinstance(keyed, KeyedRequest):
            return self._get_response(request) if keyed is None else _response(keyed)
        root = locks()
        view = _View(request, self._rules.largest_answer)

        def perform(grant: AsyncGrant) -> Answer:
            request.interlock_grant = Grant(root.loop_thread(), grant)
            idempotent.answer = view.answered(self._get_response(request))
            return idempotent.answer

        async def run(grant: AsyncGrant) -> Answer:
            return await in_caller_until_done(partial(perform, grant))

        async def treat() -> Answer:
            return await idempotent.result(root.engine())

        idempotent = IdempotentRun(self._rules, self._rules.once(root, keyed), run)
        return view.response_for(root.run(treat()), idempotent)

    async def _respond_async(self, request: Any) -> Any:
        keyed = self._keyed(request)
        if not isinstance(keyed, KeyedRequest):
            return await self._get_response(request) if keyed is None else _response(keyed)
        root = async_locks()
        view = _View(request, self._rules.largest_answer)

        async def run(grant: AsyncGrant) -> Answer:
            request.interlock_grant = grant
            return view.answered(await self._get_response(request))

        idempotent = IdempotentRun(self._rules, self._rules.once(root, keyed), run)
        # Django cancels this coroutine when the client disconnects. The request is carried out all the same, because
        # the client will repeat it.
        task = asyncio.create_task(idempotent.result(root.engine()))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return view.response_for(await asyncio.shield(task), idempotent)

    def _keyed(self, request: Any) -> KeyedRequest | Answer | None:
        """Returns the request with its key, or an answer to send at once. Returns None if the request has no key and
        needs none."""
        if not self._rules.counts_for(request.method):
            return None
        try:
            key = read_key([value] if (value := request.headers.get(HEADER)) is not None else [])
        except MalformedKey as error:
            return problems.key_malformed(str(error))
        if key is None:
            return problems.key_missing() if self._rules.required else None
        try:
            body = request.body
        except RequestDataTooBig:
            return problems.too_large(self._rules.largest_request)
        if len(body) > self._rules.largest_request:
            return problems.too_large(self._rules.largest_request)
        query = request.META.get("QUERY_STRING", "")
        whose = self._whose(request)
        return KeyedRequest(whose, request.method, request.path, key, query, request.META.get("CONTENT_TYPE", ""), body)


class _View:
    """The view's response to one request."""

    def __init__(self, request: Any, most: int) -> None:
        self._request = request
        self._most = most
        self._response: Any = None

    def answered(self, response: Any) -> Answer:
        self._response = response
        body = None if response.streaming or len(response.content) > self._most else bytes(response.content)
        return Answer(response.status_code, list(response.items()), body)

    def response_for(self, answer: Answer, idempotent: IdempotentRun) -> Any:
        return self._response if answer is idempotent.answer else _response(answer)


def _response(answer: Answer) -> Any:
    return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))


def configured_rules() -> tuple[Rules, Identity]:
    """Returns the rules and the identity function of ``INTERLOCK["IDEMPOTENCY"]``. Raises ConfigurationError."""
    given = own_settings().get("IDEMPOTENCY")
    if not isinstance(given, Mapping) or "SCOPE" not in given:
        raise ConfigurationError(
            "INTERLOCK['IDEMPOTENCY'] has to be a dict with the entry SCOPE, which identifies the client of a key: "
            "the name of a header, a function of the request or its dotted path, or None if all clients share keys."
        )
    options = {str(name).lower(): value for name, value in given.items() if name != "SCOPE"}
    if unknown := sorted(set(options) - set(RuleOptions.__annotations__)):
        known = ", ".join(name.upper() for name in RuleOptions.__annotations__)
        raise ConfigurationError(
            f"INTERLOCK['IDEMPOTENCY'] has {unknown[0].upper()!r}, which is unknown: use SCOPE, {known}."
        )
    return Rules(**options), _identity(given["SCOPE"])


def _identity(scope: Any) -> Identity:
    if scope is None:
        return lambda request: None
    if callable(scope):
        return scope  # type: ignore[no-any-return]
    if not isinstance(scope, str) or not scope:
        raise ConfigurationError(
            "INTERLOCK['IDEMPOTENCY']['SCOPE'] has to be the name of a header, a function, its dotted path, or None."
        )
    if "." not in scope:
        return lambda request: request.headers.get(scope)
    try:
        found = import_string(scope)
    except ImportError as error:
        raise ConfigurationError(
            f"INTERLOCK['IDEMPOTENCY']['SCOPE'] cannot be imported ({error}): correct its path."
        ) from error
    if not callable(found):
        raise ConfigurationError(f"INTERLOCK['IDEMPOTENCY']['SCOPE'] is {scope}, which is not a function: name one.")
    return found  # type: ignore[no-any-return]
