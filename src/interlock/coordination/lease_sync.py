"""A lease for callers without an event loop: what they ask is asked on the loop thread of the root object."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from interlock.bridge import LoopThread, nothing_to_ask
from interlock.coordination.acquiring import Entered
from interlock.coordination.acquisition import Acquisition
from interlock.coordination.election import AsyncTerm
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.grant_sync import Grant
from interlock.coordination.lease import LeaseSettings
from interlock.coordination.timing import Duration, checked_timeout
from interlock.coordination.wrapping import Busy, wrapped_sync
from interlock.stores.listing import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.election_sync import Election
    from interlock.coordination.root_sync import Interlock

G = TypeVar("G", bound=AsyncGrant)
P = ParamSpec("P")
T = TypeVar("T")


class Lease:
    """``with lease as grant: …`` waits its turn."""

    def __init__(self, locks: "Interlock", settings: LeaseSettings) -> None:
        self._locks = locks
        self._settings = settings
        self._entered: Entered[Grant] = Entered()

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def ttl(self) -> float:
        return self._settings.timing.ttl

    def try_acquire(self) -> Grant | None:
        """The grant, if the lease is free and nobody waits for it; otherwise None, at once."""
        return self._granted(_Trying(self._locks, self._settings, 0.0, self._settings.kind))

    def acquire(self, timeout: Duration | None = None) -> Grant:
        """Wait for the lease, first come, first served; after `timeout` seconds it raises `LeaseTimeout`."""
        grant = self._granted(_Acquiring(self._locks, self._settings, checked_timeout(timeout), self._settings.kind))
        assert grant is not None
        return grant

    def holders(self) -> list[HeldLease]:
        """Who holds it now, as the store sees it: one, nobody, or with slots as many as hold one."""

        async def look() -> list[HeldLease]:
            return await self._settings.holders(self._locks.engine())

        return self._locks.run(look())

    def terms(self) -> "Election":
        """An election: ``for term in lease.terms(): with term: …`` is entered whenever we lead."""
        from interlock.coordination.election_sync import Election

        return Election(self)

    def term(self) -> tuple[LoopThread, AsyncTerm]:
        """The grant of an election's next term, and the loop thread that it lives on."""
        thread = self._locks.loop_thread()
        term = _Acquiring(self._locks, self._settings, None, AsyncTerm).put_to(thread)
        assert term is not None
        return thread, term

    def _granted(self, question: "_Acquiring[AsyncGrant]") -> Grant | None:
        thread = self._locks.loop_thread()
        grant = question.put_to(thread)
        return None if grant is None else Grant(thread, grant)

    def wrap(self, *, busy: Busy = "wait") -> Callable[[Callable[P, T]], Callable[P, T | None]]:
        """Run a function under the lease; see `AsyncLease.wrap`."""
        return wrapped_sync(self, busy)

    def __enter__(self) -> Grant:
        question = _Acquiring(self._locks, self._settings, None, self._settings.kind)
        grant = None
        try:
            grant = self._granted(question)
            assert grant is not None
            return self._entered.add(question.owner, grant.__enter__())
        except BaseException:  # an interrupt may come between any two steps, also when it is granted already
            question.give_back()
            if grant is not None:
                self._entered.remove((question.owner, grant))
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._newest()[1].__exit__(kind, error, trace)
        except BaseException:  # as above
            self._newest()[1].drop()
            raise
        finally:
            self._entered.remove(self._newest())

    def _newest(self) -> tuple[object, Grant]:
        return self._entered.newest(threading.current_thread())


class _Acquiring(Generic[G]):
    """On the loop's thread; `granted` is there as soon as it is."""

    def __init__(self, locks: "Interlock", settings: LeaseSettings, timeout: float | None, kind: type[G]) -> None:
        self.granted: G | None = None
        self.owner = threading.current_thread()  # its number would be given again, to another
        self._locks = locks
        self._settings = settings
        self._timeout = timeout
        self._kind = kind
        self._thread: LoopThread | None = None

    def ask(self) -> "asyncio.Future[Any]":
        self._engine = self._locks.engine()
        self._begun = self._begin()
        return (self._begun and self._begun.asked) or nothing_to_ask()

    def answer(self) -> "G | Coroutine[Any, Any, G | None] | None":
        self.granted = None if self._begun is None else self._engine.take(self._begun)
        return self.granted or self._go_on()

    def give_back(self) -> None:
        """Somebody was interrupted, and nobody has what was granted."""
        if self._thread is not None and self.granted is not None and not self.granted.ended:
            Grant(self._thread, self.granted).release()

    def give_up(self) -> None:
        if self._begun is not None:
            self._engine.give_up(self._begun)

    def _begin(self) -> Acquisition[G] | None:
        return self._settings.begin(self._engine, self.owner, self._timeout, self._kind)

    def put_to(self, thread: LoopThread) -> G | None:
        self._thread = thread
        try:
            return thread.ask(self)
        except BaseException:
            self.give_back()
            raise

    async def _go_on(self) -> G | None:
        if self._begun:
            self.granted = await self._engine.acquired(self._begun)
        else:
            self.granted = await self._settings.acquire(self._engine, self.owner, self._timeout, self._kind)
        return self.granted


class _Trying(_Acquiring[G]):
    def _begin(self) -> Acquisition[G] | None:
        return self._settings.begin_trying(self._engine, self.owner, self._kind)

    async def _go_on(self) -> G | None:
        if self._begun:
            self.granted = await self._engine.tried(self._begun)
        else:
            self.granted = await self._settings.try_acquire(self._engine, self.owner, self._kind)
        return self.granted
