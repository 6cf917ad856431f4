"""A lease: a name with settings. A lease object has no state of its own, so any number of tasks may share it."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from interlock.coordination.lease.blocks import Acquisition, OpenBlocks
from interlock.coordination.lease.decorator import wrapped_async
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.name import own_name
from interlock.coordination.lease.times import Duration, LeaseTiming, checked_timeout
from interlock.errors import ConfigurationError
from interlock.stores.capabilities import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine
    from interlock.coordination.engine.request import LeaseRequest
    from interlock.coordination.primitives.election import AsyncElection

Busy = Literal["wait", "skip", "raise"]
G = TypeVar("G", bound=AsyncGrant)
P = ParamSpec("P")
T = TypeVar("T")

_LARGEST_METADATA = 4096
_NUL = re.compile(r"(?<!\\)(\\\\)*\\u0000")


class LeaseSettings:
    """The settings of a lease, checked when the object is made. With `own`, the name is one that Interlock makes for
    itself."""

    __slots__ = ("confirm_release", "metadata", "name", "timing")

    def __init__(
        self,
        name: str,
        ttl: Duration,
        renew_every: Duration | None,
        request_timeout: float | None,
        metadata: Mapping[str, Any] | None,
        *,
        own: bool = False,
        confirm_release: bool = True,
    ) -> None:
        self.name = name if own else own_name(name)
        self.confirm_release = confirm_release
        self.timing = LeaseTiming.of(ttl, renew_every, request_timeout)
        self.metadata = _as_json(metadata)

    def begin(
        self, engine: "Engine", owner: object, timeout: float | None, kind: type[G], *, only_try: bool = False
    ) -> "LeaseRequest[G] | None":
        """Send a thread's request for the lease. Returns None if the lease needs more than one request: then call
        `acquire` or `try_acquire`."""
        return engine.begin_acquire(self.name, self.timing, self.metadata, owner, timeout, kind, only_try=only_try)

    def try_acquire(self, engine: "Engine", owner: object, kind: type[G]) -> Coroutine[Any, Any, G | None]:
        return engine.try_acquire(self.name, self.timing, self.metadata, owner, kind)

    def acquire(self, engine: "Engine", owner: object, timeout: float | None, kind: type[G]) -> Coroutine[Any, Any, G]:
        return engine.acquire(self.name, self.timing, self.metadata, owner, timeout, kind)

    async def holders(self, engine: "Engine") -> list[HeldLease]:
        return [lease for lease in await engine.records.held(self.name) if lease.name == self.name]


class CompositeSettings(LeaseSettings):
    """The settings of a primitive that is made of several leases, so its acquisition needs more than one request."""

    __slots__ = ()

    def begin(
        self, engine: "Engine", owner: object, timeout: float | None, kind: type[G], *, only_try: bool = False
    ) -> None:
        return None


class AsyncLease:
    """``async with lease as grant: …`` waits for the lease, and cancels the body if the grant is lost."""

    def __init__(self, engine: "Callable[[], Engine]", settings: LeaseSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._entered: OpenBlocks[AsyncGrant] = OpenBlocks()

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def ttl(self) -> float:
        return self._settings.timing.ttl

    async def try_acquire(self) -> AsyncGrant | None:
        """Return the grant if the lease is free and no process waits for it; otherwise return None at once."""
        grant = await self._settings.try_acquire(self._engine(), asyncio.current_task(), AsyncGrant)
        if grant is not None:
            grant.confirm_release = self._settings.confirm_release
        return grant

    def acquire(self, timeout: Duration | None = None) -> Acquisition[AsyncGrant]:
        """Wait for the lease; waiters get it in order of arrival. Await the result, or enter it: ``async with
        lease.acquire(5)``.

        Raises `LeaseTimeout` after `timeout` seconds.
        """
        return Acquisition(self._acquire(checked_timeout(timeout)))

    def wrap(self, *, busy: Busy = "wait") -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T | None]]]:
        """Decorate a coroutine function so that it runs under the lease: ``@lease.wrap(busy="skip")``.

        If the lease is held, `busy` decides: wait for the lease, skip the function and return None, or raise
        `LeaseBusy`.
        """
        return wrapped_async(self, busy)

    async def holders(self) -> list[HeldLease]:
        """Return the current holders as the store records them: one or none, and with slots one for each held slot."""
        return await self._settings.holders(self._engine())

    def terms(self) -> "AsyncElection":
        """Return an election: ``async for term in lease.terms(): async with term: …`` runs the body while this process
        leads."""
        from interlock.coordination.primitives.election import AsyncElection

        return AsyncElection(self._engine, self._settings)

    async def __aenter__(self) -> AsyncGrant:
        task, settings = (
            asyncio.current_task(),
            self._settings,
        )  # not through `_acquire`, which would be one more coroutine
        grant = await settings.acquire(self._engine(), task, None, AsyncGrant)
        grant.confirm_release = settings.confirm_release
        return self._entered.add(task, await grant.__aenter__())

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._entered.pop(asyncio.current_task()).__aexit__(kind, error, trace)

    async def _acquire(self, timeout: float | None) -> AsyncGrant:
        grant = await self._settings.acquire(self._engine(), asyncio.current_task(), timeout, AsyncGrant)
        grant.confirm_release = self._settings.confirm_release
        return grant


def _as_json(metadata: Mapping[str, Any] | None) -> str | None:
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise ConfigurationError("A lease's metadata is not a mapping: give one, such as {'zone': 'a'}.")
    try:
        text = json.dumps(metadata, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"A lease's metadata cannot be written as JSON: {error}. Use only dicts, lists and plain "
            "values that JSON and UTF-8 can represent."
        ) from error
    if size > _LARGEST_METADATA:
        raise ConfigurationError(
            f"A lease's metadata has {size} bytes as JSON, which is too much: use {_LARGEST_METADATA} bytes at most."
        )
    if _NUL.search(text):
        raise ConfigurationError(
            "A lease's metadata contains a NUL character, which PostgreSQL cannot store: remove it."
        )
    return text
