"""The root object: it knows the database and owns the connections, and makes the leases and other primitives."""

import asyncio
import inspect
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar
from weakref import WeakKeyDictionary

from interlock import embedded, process
from interlock.config import check_schema_name, own_schema
from interlock.coordination.backends.choice import (
    LeaseDatabase,
    OpenStore,
    StoreOptions,
    choose_database,
    with_sessions,
)
from interlock.coordination.engine.engine import Engine
from interlock.coordination.lease.lease import AsyncLease, LeaseSettings
from interlock.coordination.lease.times import Duration, checked_timeout, seconds
from interlock.coordination.observation.metrics import Metrics
from interlock.coordination.observation.observer import Hook, Observer
from interlock.errors import ConfigurationError
from interlock.identity import replica_id
from interlock.stores.leases import Holder

if TYPE_CHECKING:
    from interlock.coordination.claims.results import Claiming
    from interlock.coordination.claims.scope import AsyncClaims, Spelling
    from interlock.coordination.lease.grant import AsyncGrant
    from interlock.coordination.lease.several import AsyncLeases, LeasesSettings
    from interlock.coordination.primitives.membership import AsyncMembership, Member
    from interlock.coordination.primitives.once import Once, Retention, Unfinished
    from interlock.coordination.primitives.periodic import AsyncPeriodic
    from interlock.coordination.primitives.schedule import Missed
    from interlock.coordination.primitives.shared import AsyncShared, ReadSettings, WriteSettings
    from interlock.coordination.primitives.user_records import RunSteps, UserTransaction
    from interlock.coordination.session_lock.lock import AsyncSessionLock
    from interlock.stores.postgres import Password, Session
    from interlock.stores.postgres.leases import Pooler

T = TypeVar("T")

_REQUEST_TIMEOUT = 5.0


class RootOptions(TypedDict, total=False):
    """The options of a root object apart from the URL; see `AsyncInterlock`."""

    password: "Password | None"
    schema: str | None
    replica: str | None
    pooler: "Pooler"
    on_event: Hook | None
    idle_after: Duration
    request_timeout: Duration | None


class AsyncInterlock:
    """The root object for asyncio. It opens no connection before its first use, so it may be made at import and forked.

    ``async with locks:`` checks the database at once, and closes everything at the end of the block. Without it, the
    first use opens the connections, and `close` closes them. One object may be used on several event loops: each loop
    has its own connections.

    `url` defaults to ``INTERLOCK_DATABASE_URL``, else to the database of the `interlock up` that runs on this machine.
    `password` is a function that is called for each connection. `pooler` says if a pooler is in front of the database;
    set it if Interlock cannot detect the pooler. `on_event` is called with each event. Connections that are unused for
    `idle_after` seconds are closed. `request_timeout` limits each statement; if it is given, the times of all leases
    are checked against it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        password: "Password | None" = None,
        schema: str | None = None,
        replica: str | None = None,
        pooler: "Pooler" = "detect",
        on_event: Hook | None = None,
        idle_after: Duration = 60.0,
        request_timeout: Duration | None = None,
    ) -> None:
        if schema is not None:
            check_schema_name(schema)
        if pooler not in ("detect", "transaction", "none"):
            raise ConfigurationError(f"pooler={pooler!r}: use 'detect', 'transaction' or 'none'.")
        if not seconds(idle_after) > 0:
            raise ConfigurationError(f"idle_after={idle_after!r} cannot work: use a number of seconds above 0.")
        if request_timeout is not None and not 0 < seconds(request_timeout) < math.inf:
            raise ConfigurationError(
                f"request_timeout={request_timeout!r} cannot work: use a number of seconds above 0."
            )
        if password is not None and not callable(password):
            raise ConfigurationError(
                "password= takes a function that returns the password: give a function, or put a fixed password into "
                "the URL."
            )
        if replica is not None and not (isinstance(replica, str) and replica and replica.isprintable()):
            raise ConfigurationError(
                f"replica={replica!r} cannot be the name of a replica: give text without control characters."
            )
        self._schema = schema
        self._replica = replica
        self._idle_after = seconds(idle_after)
        self._request_timeout = None if request_timeout is None else seconds(request_timeout)
        self._options = StoreOptions(password, schema, pooler, self._request_timeout or _REQUEST_TIMEOUT)
        self._database = None if url is None else choose_database(url, self._options)
        self._on_event = on_event
        self._pid = process.pid
        self._observer = Observer(replica or replica_id(), on_event)
        self._engines: WeakKeyDictionary[asyncio.AbstractEventLoop, Engine] = WeakKeyDictionary()
        self._stores: WeakKeyDictionary[asyncio.AbstractEventLoop, OpenStore] = WeakKeyDictionary()

    @property
    def metrics(self) -> Metrics:
        """The counters and histograms of this process; see docs/reference/observability.md."""
        self._notice_fork()
        return self._observer.metrics

    @property
    def schema(self) -> str:
        return self._schema or own_schema()

    def lease(
        self,
        name: str,
        *,
        ttl: Duration = 30.0,
        renew_every: Duration | None = None,
        metadata: Mapping[str, Any] | None = None,
        slots: int | None = None,
        confirm_release: bool = True,
    ) -> AsyncLease:
        """Return the lease with that name. `metadata` is shown with its holder. With `slots=N`, up to N holders may
        hold the lease at the same time.

        Without `confirm_release`, the end of a block sends the release and does not wait for the database's answer.
        """
        return AsyncLease(self.engine, self.lease_settings(name, ttl, renew_every, metadata, slots, confirm_release))

    def lease_settings(
        self,
        name: str,
        ttl: Duration,
        renew_every: Duration | None,
        metadata: Mapping[str, Any] | None,
        slots: int | None,
        confirm_release: bool = True,
    ) -> LeaseSettings:
        if slots is None:
            return LeaseSettings(
                name, ttl, renew_every, self._request_timeout, metadata, confirm_release=confirm_release
            )
        if not confirm_release:
            raise ConfigurationError(
                "confirm_release=False does not work with slots, because each slot is a lease of its own, and the next "
                "request may ask for another slot: leave confirm_release or slots out."
            )
        from interlock.coordination.primitives.semaphore import SlotSettings

        return SlotSettings(name, slots, ttl, renew_every, self._request_timeout, metadata)

    def leases(self, *names: str, ttl: Duration = 30.0, metadata: Mapping[str, Any] | None = None) -> "AsyncLeases":
        """Return several leases that are held together or not at all. No order of the names can cause a deadlock."""
        from interlock.coordination.lease.several import AsyncLeases

        return AsyncLeases(self.engine, self.leases_settings(names, ttl, metadata))

    def leases_settings(
        self, names: Sequence[str], ttl: Duration, metadata: Mapping[str, Any] | None
    ) -> "LeasesSettings":
        from interlock.coordination.lease.several import LeasesSettings

        return LeasesSettings([self.lease_settings(name, ttl, None, metadata, None) for name in names])

    def shared(
        self,
        name: str,
        *,
        readers: int = 20,
        ttl: Duration = 30.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> "AsyncShared":
        """Return a lease that up to `readers` readers hold at the same time, or one writer alone."""
        from interlock.coordination.primitives.shared import AsyncShared

        return AsyncShared(self.engine, *self.shared_settings(name, readers, ttl, metadata))

    def shared_settings(
        self, name: str, readers: int, ttl: Duration, metadata: Mapping[str, Any] | None
    ) -> "tuple[ReadSettings, WriteSettings]":
        from interlock.coordination.primitives.shared import ReadSettings, WriteSettings

        given = (name, readers, ttl, self._request_timeout, metadata)
        return ReadSettings(*given), WriteSettings(*given)

    def join(
        self,
        group: str,
        *,
        id: str | None = None,  # noqa: A002 # what it is called everywhere
        metadata: Mapping[str, Any] | None = None,
        ttl: Duration = 10.0,
    ) -> "AsyncMembership":
        """Return a membership of a group: ``async with locks.join("workers", metadata={"zone": "a"}): …``"""
        from interlock.coordination.primitives.membership import AsyncMembership

        return AsyncMembership(self.engine, group, id, ttl, self._request_timeout, metadata)

    async def members(self, group: str) -> "list[Member]":
        """Return the current members of the group, ordered by id."""
        from interlock.coordination.primitives.membership import members

        return await members(self.engine(), group)

    async def once(
        self,
        key: str,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        ttl: Duration = 30.0,
        timeout: Duration | None = None,
        connection: Any = None,
        unfinished: "Unfinished" = "again",
    ) -> T:
        """Return the result of ``function(*args)``. The first call under `key` runs the function and records its result
        as JSON.

        Calls that come meanwhile wait, at most `timeout` seconds; if the running call dies or fails, the next call runs
        the function. A call whose `args` differ from those of the first call raises `OnceConflict`. With a
        `connection`, the record is part of the transaction that is open on it: the function's writes in that
        transaction and the record are committed together, or neither is. Without a `connection`, ``unfinished="raise"``
        raises `OnceInterrupted` if an earlier call began and never recorded a result.
        """
        if not inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                "once() of AsyncInterlock runs only coroutine functions: write `async def`, or use Interlock for a "
                "plain function."
            )
        limit = checked_timeout(timeout)
        once = self.once_settings(key, ttl, args, unfinished=unfinished)
        inside = None
        if connection is not None:
            from interlock.coordination.primitives.user_records import translate_error
            from interlock.user_connections import run_steps

            inside = self.user_transaction(lambda steps: run_steps(connection, steps, translate_error))
        result: T = await once.run(self.engine(), asyncio.current_task(), limit, lambda grant: function(*args), inside)
        return result

    def once_settings(
        self,
        key: str,
        ttl: Duration,
        request: Sequence[Any] | None,
        retention: "Retention | None" = None,
        unfinished: "Unfinished" = "again",
    ) -> "Once":
        from interlock.coordination.primitives.once import Once

        return Once(key, ttl, self._request_timeout, request, retention, unfinished)

    def user_transaction(self, run_steps: "RunSteps") -> "UserTransaction":
        """Return the user's own transaction, on a connection of any supported kind."""
        from interlock.coordination.primitives.user_records import UserTransaction

        return UserTransaction(run_steps, self._resolve_database().schema)

    def every(
        self,
        when: str | Duration,
        name: str | None = None,
        *,
        missed: "Missed" = "once",
        timezone: str | None = None,
        ttl: Duration = 30.0,
    ) -> "Callable[[Callable[[AsyncGrant], Awaitable[object]]], AsyncPeriodic]":
        """``@locks.every("5m")`` makes a coroutine function periodic: every five minutes, one of all replicas runs it.

        `when` is an interval or a cron expression; a cron expression counts in the time zone `timezone`, by default
        UTC. `name` is the name of the lease, by default the function's name. `missed` decides about missed ticks:
        ``"once"``, ``"skip"``, or how many of them are run. The function runs at each tick while the returned object is
        entered, or while its `run` is awaited.
        """
        make = self.periodic(when, missed, timezone, ttl)

        def decorate(function: "Callable[[AsyncGrant], Awaitable[object]]") -> "AsyncPeriodic":
            if not inspect.iscoroutinefunction(function):
                raise ConfigurationError(
                    "every() of AsyncInterlock runs only coroutine functions: write `async def`, or use Interlock "
                    "for a plain function."
                )
            return make(name or function.__qualname__, function)

        return decorate

    def periodic(
        self, when: str | Duration, missed: "Missed", timezone: str | None, ttl: Duration
    ) -> "Callable[[str, Callable[[AsyncGrant], Awaitable[object]]], AsyncPeriodic]":
        from interlock.coordination.lease.name import whole_name
        from interlock.coordination.primitives.periodic import AsyncPeriodic
        from interlock.coordination.primitives.schedule import checked_missed, schedule

        ticks, policy = schedule(when, timezone), checked_missed(missed)

        def make(name: str, function: "Callable[[AsyncGrant], Awaitable[object]]") -> AsyncPeriodic:
            settings = self.lease_settings(whole_name(name), ttl, None, None, None)
            return AsyncPeriodic(self.engine, settings, ticks, policy, function)

        return make

    def claims(self, scope: str, *, names: "Spelling | None" = None) -> "AsyncClaims":
        """Return a scope of names, in which each name has one owner. `names` checks how they are written, for example
        `dns_label` or `host_name`."""
        from interlock.coordination.claims.scope import AsyncClaims
        from interlock.names import plain_name

        return AsyncClaims(lambda: self.schema, scope, names or plain_name)

    async def claim(
        self, connection: Any, scope: str, name: str | None, owner: str, *, timeout: Duration = 0
    ) -> "Claiming | None":
        """Claim a name for an owner, in your own transaction. Returns `Claimed`, `Taken`, `Pending` or `Released`, or
        None for an empty name.

        See docs/reference/claims.md.
        """
        return await self.claims(scope).claim(connection, name, owner, timeout=timeout)

    def session_lock(self, name: str, *, ttl: Duration = 10.0) -> "AsyncSessionLock":
        """Return a lock that is held as long as a database session lives. It needs a direct connection to
        PostgreSQL."""
        if self._database is not None:
            with_sessions(self._database)
        from interlock.coordination.session_lock.lock import AsyncSessionLock

        return AsyncSessionLock(self._connect_for_lock, name, schema=self.schema, ttl=ttl)

    async def open(self) -> Self:
        """Check that the database is ready. Raises an error that says what is wrong with the database."""
        self.engine()
        await self._stores[asyncio.get_running_loop()].verify()
        return self

    async def close(self) -> None:
        """Release all grants of this event loop, and close its connections."""
        loop = asyncio.get_running_loop()
        self._stores.pop(loop, None)
        engine = self._engines.pop(loop, None)
        if engine is not None and engine.pid == process.pid:
            await _run_to_completion(engine.close())

    async def __aenter__(self) -> Self:
        try:
            return await self.open()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Open this object while an application runs: ``FastAPI(lifespan=locks.lifespan)``."""
        async with self:
            yield

    def engine(self) -> Engine:
        """Return the engine of the running event loop. A forked child gets an engine of its own."""
        loop = asyncio.get_running_loop()
        engine = self._engines.get(loop)
        if engine is None or engine.closed or engine.pid != process.pid:
            self._notice_fork()
            self._discard_ended_loops()
            engine = self._engines[loop] = self._new_engine(loop)
        return engine

    def _notice_fork(self) -> None:
        """Let the counters of a forked child start at 0."""
        if self._pid != process.pid:
            self._pid = process.pid
            self._observer = Observer(self._replica or replica_id(), self._on_event)

    def _discard_ended_loops(self) -> None:
        """Drop the connections of event loops that ended before `close` was called; no other code can close these."""
        for loop in [loop for ref in self._stores.keyrefs() if (loop := ref()) and loop.is_closed()]:
            self._engines.pop(loop, None)
            if store := self._stores.pop(loop, None):  # else another thread did it
                store.sever()

    def _new_engine(self, loop: asyncio.AbstractEventLoop) -> Engine:
        database = self._resolve_database()
        holder = Holder(self._observer.replica, socket.gethostname(), process.pid)
        store = self._stores[loop] = database.open(holder, self._observer.reconnected)
        return Engine(store, self._observer, database=database, idle_after=self._idle_after)

    def check_database(self) -> None:
        """Raise `ConfigurationError` if no database is named. Opens no connection."""
        self._resolve_database()

    def _resolve_database(self) -> LeaseDatabase:
        """Return the database of the URL. Without a URL, return the database that the environment names now, else the
        embedded one."""
        return self._database or choose_database(embedded.default_url(), self._options)

    async def _connect_for_lock(self) -> "Session":
        return await with_sessions(self._resolve_database()).session(f"interlock session lock {self._observer.replica}")


async def _run_to_completion(work: Coroutine[Any, Any, None]) -> None:
    """Wait until the work is done, even if this call is cancelled meanwhile. That happens when the object is closed
    inside a lease's block, because the loss of the lease cancels the block."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise
