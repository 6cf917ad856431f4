"""The root object for callers without an event loop: a thin layer over a loop thread that it owns.

The loop thread sends the renewals, and requests that several threads make at the same time share statements on it. The
first use starts the loop thread, so an object that is made at import may be forked; a forked child starts a loop thread
of its own.
"""

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from interlock import process
from interlock.bridge import LoopThread, in_caller, in_caller_until_done
from interlock.coordination.engine.engine import Engine
from interlock.coordination.lease.times import Duration, checked_timeout
from interlock.coordination.observation.metrics import Metrics
from interlock.coordination.root import AsyncInterlock, RootOptions
from interlock.coordination.sync.grant import Grant
from interlock.coordination.sync.lease import Lease
from interlock.coordination.sync.shared import Shared
from interlock.errors import ConfigurationError
from interlock.user_connections import run_steps_sync

if TYPE_CHECKING:
    from interlock.coordination.claims.results import Claiming
    from interlock.coordination.claims.scope import Claims, Spelling
    from interlock.coordination.primitives.membership import Member
    from interlock.coordination.primitives.once import Once, Retention, Unfinished
    from interlock.coordination.primitives.schedule import Missed
    from interlock.coordination.sync.membership import Membership
    from interlock.coordination.sync.periodic import Periodic
    from interlock.coordination.sync.session_lock import SessionLock
    from interlock.coordination.sync.several import Leases

T = TypeVar("T")


class Interlock:
    """Like `AsyncInterlock`, with blocking methods, for any number of threads.

    `loop_factory` makes the event loop of the loop thread, for example ``uvloop.new_event_loop``.
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
        return Lease(self, self._locks.lease_settings(name, ttl, renew_every, metadata, slots, confirm_release))

    def leases(self, *names: str, ttl: Duration = 30.0, metadata: Mapping[str, Any] | None = None) -> "Leases":
        """Return several leases that are held together or not at all. No order of the names can cause a deadlock."""
        from interlock.coordination.sync.several import Leases

        return Leases(self, self._locks.leases_settings(names, ttl, metadata))

    def shared(
        self,
        name: str,
        *,
        readers: int = 20,
        ttl: Duration = 30.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Shared:
        """Return a lease that up to `readers` readers hold at the same time, or one writer alone."""
        return Shared(self, *self._locks.shared_settings(name, readers, ttl, metadata))

    def join(
        self,
        group: str,
        *,
        id: str | None = None,  # noqa: A002 # what it is called everywhere
        metadata: Mapping[str, Any] | None = None,
        ttl: Duration = 10.0,
    ) -> "Membership":
        """Return a membership of a group: ``with locks.join("workers", metadata={"zone": "a"}): …``"""
        from interlock.coordination.sync.membership import Membership

        return Membership(self, self._locks.join(group, id=id, metadata=metadata, ttl=ttl))

    def members(self, group: str) -> "list[Member]":
        """Return the current members of the group, ordered by id."""
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
        """Like `AsyncInterlock.once`; the function runs in the calling thread. `connection` may be the alias of a
        Django database."""
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                "once() of Interlock runs only plain functions: use AsyncInterlock for a coroutine function."
            )
        limit = checked_timeout(timeout)
        once = self._locks.once_settings(key, ttl, args, unfinished=unfinished)
        owner = threading.current_thread()
        inside = None
        if connection is not None:
            from interlock.coordination.primitives.user_records import translate_error

            inside = self._locks.user_transaction(
                lambda steps: in_caller(lambda: run_steps_sync(connection, steps, translate_error))
            )

        async def run() -> T:
            work = functools.partial(function, *args)
            result: T = await once.run(self.engine(), owner, limit, lambda grant: in_caller_until_done(work), inside)
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
        """Like `AsyncInterlock.every`, for plain functions."""
        from interlock.coordination.sync.periodic import Periodic

        make = self._locks.periodic(when, missed, timezone, ttl)

        def decorate(function: Callable[[Grant], object]) -> Periodic:
            if inspect.iscoroutinefunction(function):
                raise ConfigurationError(
                    "every() of Interlock runs only plain functions: use AsyncInterlock for a coroutine function."
                )
            return Periodic(self, functools.partial(make, name or function.__qualname__), function)

        return decorate

    def claims(self, scope: str, *, names: "Spelling | None" = None) -> "Claims":
        """Return a scope of names, in which each name has one owner. `names` checks how they are written, for example
        `dns_label` or `host_name`."""
        from interlock.coordination.claims.scope import Claims
        from interlock.names import plain_name

        return Claims(lambda: self.schema, scope, names or plain_name)

    def claim(
        self, connection: Any, scope: str, name: str | None, owner: str, *, timeout: Duration = 0
    ) -> "Claiming | None":
        """Claim a name for an owner, in your own transaction; see `AsyncInterlock.claim`."""
        return self.claims(scope).claim(connection, name, owner, timeout=timeout)

    def session_lock(self, name: str, *, ttl: Duration = 10.0) -> "SessionLock":
        from interlock.coordination.sync.session_lock import SessionLock

        return SessionLock(self._locks.session_lock(name, ttl=ttl), self)

    def open(self) -> Self:
        """Check that the database is ready. Raises an error that says what is wrong with the database."""
        self.run(self._locks.open())
        return self

    def close(self) -> None:
        """Release all grants, close the connections, and end the loop thread."""
        thread = self._running()
        if thread is None:
            return
        thread.check_waiting()
        try:
            thread.close(self._locks.close)
        except BaseException:  # interrupted, perhaps before it had begun: nothing else would close it
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
        """Run a coroutine on the loop thread and wait for it. Starts the loop thread if there is none yet."""
        try:
            thread = self.loop_thread()
        except BaseException:
            coroutine.close()
            raise
        return thread.run(coroutine)

    def loop_thread(self) -> LoopThread:
        """Return the running loop thread, or start one. Grants that are made on it end with it."""
        return self._running() or self._start()

    def engine(self) -> Engine:
        """Return the engine. This method has to be called on the loop thread."""
        return self._locks.engine()

    def _start(self) -> LoopThread:
        with _starting:
            thread = self._running()
            if thread is None:
                self._locks.check_database()  # here, so that the traceback is short and no thread is left behind
                thread = self._thread = LoopThread("interlock", self._loop_factory)
                self._pid = process.pid
            return thread

    def _running(self) -> LoopThread | None:
        """Return the loop thread. Returns None if there is no thread yet, or if it was closed, or if it belongs to the
        parent process."""
        thread = self._thread
        return None if thread is None or thread.is_closing or self._pid != process.pid else thread


_starting = threading.Lock()
process.recreated_in_children(
    globals(), "_starting", threading.Lock
)  # a thread that held it at the fork does not exist here
