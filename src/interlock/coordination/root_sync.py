"""The same for callers without an event loop: a thin face over one loop thread that the root object owns.

The thread carries the heartbeats anyway, and threads that ask at the same time share statements there. It is started by
first use, so an object that is made at import may be forked; in a forked child it is started anew.
"""

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack
from uuid import UUID

from interlock import process
from interlock.bridge import LoopThread, Question, in_caller, in_caller_to_its_end
from interlock.connections import ask_sync
from interlock.coordination.acquiring import Entered
from interlock.coordination.acquisition import Acquisition
from interlock.coordination.election import AsyncTerm
from interlock.coordination.engine import Engine
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.lease import LeaseSettings
from interlock.coordination.metrics import Metrics
from interlock.coordination.root import AsyncInterlock, RootOptions
from interlock.coordination.timing import Duration, checked_timeout
from interlock.coordination.wrapping import Busy, wrapped_sync
from interlock.errors import ConfigurationError
from interlock.stores.leases import ReleaseAnswer
from interlock.stores.listing import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.claims.results import Claiming
    from interlock.coordination.claims.scope import Claims, Spelling
    from interlock.coordination.election_sync import Election
    from interlock.coordination.membership import Member
    from interlock.coordination.membership_sync import Membership
    from interlock.coordination.once import Once, Retention, Unfinished
    from interlock.coordination.periodic_sync import Periodic
    from interlock.coordination.schedule import Missed
    from interlock.coordination.session_lock_sync import SessionLock
    from interlock.coordination.several_sync import Leases

G = TypeVar("G", bound=AsyncGrant)
P = ParamSpec("P")
T = TypeVar("T")


class Grant:
    """As `AsyncGrant`, without await. Nothing can interrupt a thread: ask `check()` between steps, or be told by
    `on_lost`; a lease that was lost also raises at the end of the block."""

    __slots__ = ("_grant", "_left", "_thread")

    def __init__(self, thread: LoopThread, grant: AsyncGrant) -> None:
        self._thread = thread
        self._grant = grant
        self._left = False

    def __repr__(self) -> str:
        return repr(self._grant)

    @property
    def name(self) -> str:
        return self._grant.name

    @property
    def token(self) -> int:
        return self._grant.token

    @property
    def grant_id(self) -> UUID:
        return self._grant.grant_id

    @property
    def ttl(self) -> float:
        return self._grant.ttl

    @property
    def schema(self) -> str:
        return self._grant.schema

    @property
    def lost(self) -> bool:
        return self._grant.lost

    @property
    def remaining(self) -> float:
        return 0.0 if self._left else self._grant.remaining

    def check(self) -> None:
        """Raise `LeaseLost` if it is not held any more."""
        if self._left and not self._grant.ended:  # the loop has not come to that yet
            raise self._grant.error_of("released")
        self._grant.check()

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Called on the loop's thread: it must not block for long."""
        if self._grant.ended or self._grant.is_cut_off:
            self._grant.on_lost(callback)
        else:
            self._thread.run(self._listen(callback))

    def guard(self, connection: Any = None) -> None:
        """Let the connection's open transaction commit only while this grant is current; see docs/guard.md."""
        self._grant.guards.guard_sync(self, connection)

    def guarding(self, connection: Any = None) -> AbstractContextManager[None]:
        """``with``: so does every transaction in the block, without a call, that writes tables which this lease
        protects; see docs/guard.md."""
        return self._grant.guards.guarding_sync((self,), connection)

    def guard_item(self) -> dict[str, Any]:
        """For the TransactItems of your own TransactWriteItems; see docs/dynamodb.md."""
        return self._grant.guard_item()

    def release(self) -> bool:
        if self._grant.is_cut_off:
            return False
        try:
            return self._thread.ask(_Releasing(self._grant))
        except ConfigurationError:
            if self._thread.is_closing:  # that gives it back
                return False
            raise

    def hand_over(self) -> bool:
        if self._grant.is_cut_off:
            raise self._grant.error()
        return self._thread.run(self._grant.hand_over())

    async def _listen(self, callback: Callable[[str], object]) -> None:
        """On the loop's thread, where a loss is told: it cannot come in between."""
        self._grant.on_lost(callback)

    def __enter__(self) -> Self:
        if not self._grant.is_held:  # it was lost on its way here
            self.release()
            raise self._grant.error()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        released_before = self._grant.is_released
        held = self.release() if self._grant.confirmed else self._let_go()
        if not held and not released_before:
            raise self._grant.error() from error
        return None

    def _let_go(self) -> bool:
        """False: it is not held any more, as far as we know. Else nobody waits for what comes of it."""
        if not self._grant.is_held or self._grant.engine.closed:
            return self.release()
        self._left = True
        self._thread.post(functools.partial(self._grant.engine.let_go, self._grant))
        return True


class _Releasing(Question[bool]):
    """On the loop's thread."""

    def __init__(self, grant: AsyncGrant) -> None:
        self._grant = grant
        self._asked: asyncio.Future[tuple[ReleaseAnswer, float]] | None = None

    def ask(self) -> "asyncio.Future[Any]":
        self._asked = self._grant.engine.begin_releasing(self._grant)
        return self._asked or _done()

    def answer(self) -> bool:
        return self._asked is not None and self._grant.engine.released(self._grant, self._asked)


class _Acquiring(Generic[G]):
    """On the loop's thread; `granted` is there as soon as it is."""

    def __init__(self, locks: "Interlock", settings: LeaseSettings, timeout: float | None, kind: type[G]) -> None:
        self.granted: G | None = None
        self._locks = locks
        self._settings = settings
        self._timeout = timeout
        self._kind = kind
        self._owner = threading.current_thread()  # its number would be given again, to another

    def ask(self) -> "asyncio.Future[Any]":
        self._engine = self._locks.engine()
        self._begun = self._begin()
        return (self._begun and self._begun.asked) or _done()

    def answer(self) -> "G | Coroutine[Any, Any, G | None] | None":
        self.granted = None if self._begun is None else self._engine.take(self._begun)
        return self.granted or self._go_on()

    def give_up(self) -> None:
        if self._begun is not None:
            self._engine.give_up(self._begun)

    def _begin(self) -> Acquisition[G] | None:
        return self._settings.begin(self._engine, self._owner, self._timeout, self._kind)

    async def _go_on(self) -> G | None:
        if self._begun:
            self.granted = await self._engine.acquired(self._begun)
        else:
            self.granted = await self._settings.acquire(self._engine, self._owner, self._timeout, self._kind)
        return self.granted


class _Trying(_Acquiring[G]):
    def _begin(self) -> Acquisition[G] | None:
        return self._settings.begin_trying(self._engine, self._owner, self._kind)

    async def _go_on(self) -> G | None:
        if self._begun:
            self.granted = await self._engine.tried(self._begun)
        else:
            self.granted = await self._settings.try_acquire(self._engine, self._owner, self._kind)
        return self.granted


def _asked(thread: LoopThread, question: _Acquiring[G]) -> G | None:
    try:
        return thread.ask(question)
    except BaseException:
        if question.granted is not None:  # at the very moment when the thread was interrupted
            Grant(thread, question.granted).release()
        raise


def _done() -> "asyncio.Future[None]":
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


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
        term = _asked(thread, _Acquiring(self._locks, self._settings, None, AsyncTerm))
        assert term is not None
        return thread, term

    def _granted(self, question: "_Acquiring[AsyncGrant]") -> Grant | None:
        thread = self._locks.loop_thread()
        grant = _asked(thread, question)
        return None if grant is None else Grant(thread, grant)

    def wrap(self, *, busy: Busy = "wait") -> Callable[[Callable[P, T]], Callable[P, T | None]]:
        """Run a function under the lease; see `AsyncLease.wrap`."""
        return wrapped_sync(self, busy)

    def __enter__(self) -> Grant:
        grant = self.acquire().__enter__()
        return self._entered.add(threading.current_thread(), grant)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._entered.pop(threading.current_thread()).__exit__(kind, error, trace)


class Shared:
    """``with catalog.read(): …`` and ``with catalog.write(): …``; see `AsyncShared`."""

    def __init__(self, locks: "Interlock", reading: LeaseSettings, writing: LeaseSettings) -> None:
        self._locks = locks
        self._reading = reading
        self._writing = writing

    @property
    def name(self) -> str:
        return self._writing.name

    def read(self) -> Lease:
        """Beside other readers, as many as there are slots."""
        return Lease(self._locks, self._reading)

    def write(self) -> Lease:
        """Alone."""
        return Lease(self._locks, self._writing)


class Interlock:
    """As `AsyncInterlock`, without await, for any number of threads.

    `loop_factory` makes the event loop of the thread that works for them, such as ``uvloop.new_event_loop``.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
        **options: Unpack[RootOptions],
    ) -> None:
        self._locks = AsyncInterlock(url, **options)
        self._loop_factory = loop_factory
        self._thread: LoopThread | None = None
        self._pid = 0

    @property
    def metrics(self) -> Metrics:
        return self._locks.metrics

    @property
    def schema(self) -> str:
        return self._locks.schema

    def lease(
        self,
        name: str,
        *,
        ttl: Duration = 30.0,
        renew_every: Duration | None = None,
        metadata: Mapping[str, Any] | None = None,
        slots: int | None = None,
        confirm_release: bool = True,
    ) -> Lease:
        return Lease(self, self._locks.settings(name, ttl, renew_every, metadata, slots, confirm_release))

    def leases(self, *names: str, ttl: Duration = 30.0, metadata: Mapping[str, Any] | None = None) -> "Leases":
        """Several leases that are held together, or not at all; never a deadlock, in whichever order they are given."""
        from interlock.coordination.several_sync import Leases

        return Leases(self, self._locks.several(names, ttl, metadata))

    def shared(
        self,
        name: str,
        *,
        readers: int = 20,
        ttl: Duration = 30.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Shared:
        """A lease that up to so many `readers` hold together, or one writer alone."""
        return Shared(self, *self._locks.sides(name, readers, ttl, metadata))

    def join(
        self,
        group: str,
        *,
        id: str | None = None,  # noqa: A002 # what it is called everywhere
        metadata: Mapping[str, Any] | None = None,
        ttl: Duration = 10.0,
    ) -> "Membership":
        """Be one of a group: ``with locks.join("workers", metadata={"zone": "a"}): …``"""
        from interlock.coordination.membership_sync import Membership

        return Membership(self, self._locks.join(group, id=id, metadata=metadata, ttl=ttl))

    def members(self, group: str) -> "list[Member]":
        """Who is in it now, by id."""
        return self.run(self._locks.members(group))

    def once(
        self,
        key: str,
        function: Callable[..., T],
        *args: Any,
        ttl: Duration = 30.0,
        timeout: Duration | None = None,
        connection: Any = None,
        unfinished: "Unfinished" = "again",
    ) -> T:
        """As `AsyncInterlock.once`; the function runs in the thread that calls. Django's connection may be an alias."""
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError("Interlock runs plain functions once: use AsyncInterlock for coroutine functions.")
        patience = checked_timeout(timeout)
        once = self._locks.once_settings(key, ttl, args, unfinished=unfinished)
        owner = threading.current_thread()
        inside = None
        if connection is not None:
            from interlock.coordination.recording import judge

            inside = self._locks.inside(lambda steps: in_caller(lambda: ask_sync(connection, steps, judge)))

        async def run() -> T:
            work = functools.partial(function, *args)
            result: T = await once.run(self.engine(), owner, patience, lambda grant: in_caller_to_its_end(work), inside)
            return result

        return self.run(run())

    def once_settings(
        self, key: str, ttl: Duration, request: Sequence[Any] | None, retention: "Retention | None" = None
    ) -> "Once":
        return self._locks.once_settings(key, ttl, request, retention)

    def every(
        self,
        when: str | Duration,
        name: str | None = None,
        *,
        missed: "Missed" = "once",
        timezone: str | None = None,
        ttl: Duration = 30.0,
    ) -> "Callable[[Callable[[Grant], object]], Periodic]":
        """As `AsyncInterlock.every`, for plain functions."""
        from interlock.coordination.periodic_sync import Periodic

        make = self._locks.periodic(when, missed, timezone, ttl)

        def decorate(function: Callable[[Grant], object]) -> Periodic:
            if inspect.iscoroutinefunction(function):
                raise ConfigurationError("Interlock runs plain functions: use AsyncInterlock for coroutine functions.")
            return Periodic(self, functools.partial(make, name or function.__qualname__), function)

        return decorate

    def claims(self, scope: str, *, names: "Spelling | None" = None) -> "Claims":
        """A scope of names, each with one owner; `names` says how they are written: `dns_label`, `host_name`."""
        from interlock.coordination.claims.names import plain_name
        from interlock.coordination.claims.scope import Claims

        return Claims(lambda: self.schema, scope, names or plain_name)

    def claim(
        self, connection: Any, scope: str, name: str | None, owner: str, *, timeout: Duration = 0
    ) -> "Claiming | None":
        """Make a name the owner's, in your own transaction; see `AsyncInterlock.claim`."""
        return self.claims(scope).claim(connection, name, owner, timeout=timeout)

    def session_lock(self, name: str, *, ttl: Duration = 10.0) -> "SessionLock":
        from interlock.coordination.session_lock_sync import SessionLock

        return SessionLock(self._locks.session_lock(name, ttl=ttl), self)

    def open(self) -> Self:
        """Look whether the database can serve; raises what is wrong with it."""
        self.run(self._locks.open())
        return self

    def close(self) -> None:
        """Give back what is held, and close the connections and the thread."""
        thread = self._running()
        if thread is None:
            return
        thread.check_waiting()
        try:
            thread.close(self._locks.close)
        except BaseException:  # we were interrupted, perhaps before it had begun: nobody else would
            thread.close(self._locks.close)
            raise

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """On the loop thread, which is started if there is none yet."""
        try:
            thread = self.loop_thread()
        except BaseException:
            coroutine.close()
            raise
        return thread.run(coroutine)

    def loop_thread(self) -> LoopThread:
        """The one that runs now: what was made on it lives and ends there."""
        return self._running() or self._start()

    def engine(self) -> Engine:
        """On the loop thread only."""
        return self._locks.engine()

    def _start(self) -> LoopThread:
        with _starting:
            thread = self._running()
            if thread is None:
                thread = self._thread = LoopThread("interlock", self._loop_factory)
                self._pid = process.pid
            return thread

    def _running(self) -> LoopThread | None:
        """None: there is none yet, or it was closed, or is the parent's."""
        thread = self._thread
        return None if thread is None or thread.is_closing or self._pid != process.pid else thread


_starting = threading.Lock()


def _start_in_child() -> None:
    """Whoever held it when we were forked is not here."""
    global _starting
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_start_in_child)
