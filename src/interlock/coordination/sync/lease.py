"""A lease for callers without an event loop: the root object's loop thread handles the requests of all threads."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from interlock.bridge import LoopThread, completed
from interlock.coordination.lease.decorator import Busy, wrapped_sync
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import LeaseSettings
from interlock.coordination.lease.times import Duration, checked_timeout
from interlock.coordination.primitives.election import AsyncTerm
from interlock.coordination.sync.blocks import Blocks
from interlock.coordination.sync.grant import Grant
from interlock.stores.capabilities import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.sync.election import Election
    from interlock.coordination.sync.root import Interlock

G = TypeVar("G", bound=AsyncGrant)
P = ParamSpec("P")
T = TypeVar("T")


class Lease(Blocks[Grant]):
    """``with lease as grant: …`` waits for the lease."""

    def __init__(self, locks: "Interlock", settings: LeaseSettings) -> None:
        super().__init__()
        self._locks = locks
        self._settings = settings

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def ttl(self) -> float:
        return self._settings.timing.ttl

    def try_acquire(self) -> Grant | None:
        """Return the grant if the lease is free and no process waits for it; otherwise return None at once."""
        return self._granted(_ThreadRequest(self._locks, self._settings, 0.0, AsyncGrant, only_try=True))

    def acquire(self, timeout: Duration | None = None) -> Grant:
        """Wait for the lease; waiters get it in order of arrival. Raises `LeaseTimeout` after `timeout` seconds."""
        grant = self._granted(_ThreadRequest(self._locks, self._settings, checked_timeout(timeout), AsyncGrant))
        assert grant is not None
        return grant

    def holders(self) -> list[HeldLease]:
        """Return the current holders as the store records them: one or none, and with slots one for each held slot."""

        async def look() -> list[HeldLease]:
            return await self._settings.holders(self._locks.engine())

        return self._locks.run(look())

    def terms(self) -> "Election":
        """Return an election: ``for term in lease.terms(): with term: …`` runs the body while this process leads."""
        from interlock.coordination.sync.election import Election

        return Election(self)

    def term(self, make: Callable[[LoopThread, AsyncTerm], T]) -> T:
        """Wait for the next term of an election. Returns ``make(thread, grant)``."""
        thread = self._locks.loop_thread()
        request = _ThreadRequest(self._locks, self._settings, None, AsyncTerm)
        try:
            term = request.send_to(thread)
            assert term is not None
            return make(thread, term)
        except BaseException:
            request.release()
            raise

    def wrap(self, *, busy: Busy = "wait") -> Callable[[Callable[P, T]], Callable[P, T | None]]:
        """Decorate a function so that it runs under the lease; see `AsyncLease.wrap`."""
        return wrapped_sync(self, busy)

    def _granted(self, request: "_ThreadRequest[AsyncGrant]") -> Grant | None:
        try:
            thread = self._locks.loop_thread()
            grant = request.send_to(thread)
            return None if grant is None else Grant(thread, grant, confirm_release=self._settings.confirm_release)
        except BaseException:
            request.release()
            raise

    def _acquire(self, granted: list[Grant]) -> Grant:
        request = _ThreadRequest(self._locks, self._settings, None, AsyncGrant)
        try:
            grant = self._granted(request)
            assert grant is not None
            granted.append(grant)
        except BaseException:
            request.release()
            raise
        return grant


class _ThreadRequest(Generic[G]):
    """A thread's request for the lease, handled on the loop's thread. `granted` is set as soon as the grant exists."""

    def __init__(
        self,
        locks: "Interlock",
        settings: LeaseSettings,
        timeout: float | None,
        kind: type[G],
        *,
        only_try: bool = False,
    ) -> None:
        self.granted: G | None = None
        self._owner = threading.current_thread()  # not its number, which is given again to another thread
        self._locks = locks
        self._settings = settings
        self._timeout = timeout
        self._kind = kind
        self._only_try = only_try
        self._thread: LoopThread | None = None

    def send_to(self, thread: LoopThread) -> G | None:
        """Send the request and wait for the grant. A caller that is interrupted, now or later, has to call `release`,
        because the lease may have been granted."""
        self._thread = thread
        return thread.send(self)

    def send(self) -> "asyncio.Future[Any]":
        self._engine = self._locks.engine()
        self._request = self._settings.begin(
            self._engine, self._owner, self._timeout, self._kind, only_try=self._only_try
        )
        return (self._request and self._request.response) or completed()

    def receive(self) -> "G | Coroutine[Any, Any, G | None] | None":
        self.granted = None if self._request is None else self._engine.collect(self._request)
        return self.granted or self._wait()

    def give_up(self) -> None:
        if self._request is not None:
            self._engine.give_up(self._request)

    def release(self) -> None:
        """Release the lease if it was granted and the grant has not ended."""
        if self._thread is not None and self.granted is not None and not self.granted.ended:
            Grant(self._thread, self.granted).release()

    async def _wait(self) -> G | None:
        if self._request is not None:
            self.granted = await self._engine.wait(self._request)
        elif self._only_try:
            self.granted = await self._settings.try_acquire(self._engine, self._owner, self._kind)
        else:
            self.granted = await self._settings.acquire(self._engine, self._owner, self._timeout, self._kind)
        return self.granted
