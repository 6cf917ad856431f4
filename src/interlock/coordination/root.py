"""The root object: it knows the database, and everything borrows its connections from it."""

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
    """What a root object takes beside the URL; see `AsyncInterlock`."""

    password: "Password | None"
    schema: str | None
    replica: str | None
    pooler: "Pooler"
    on_event: Hook | None
    idle_after: Duration
    request_timeout: Duration | None


class AsyncInterlock:
    """Made at import, opened later: until something is asked of it, it opens nothing, so it may be forked.

    ``async with locks:`` looks at the database at once and closes everything in the end. Without that, it is opened by
    first use; then `close` it. It may be used on several event loops: each has its own connections.

    `url` defaults to ``INTERLOCK_DATABASE_URL``, else to the database of the `interlock up` that runs on this machine.
    `password` is called for each connection. `pooler` says what stands between us and the database, if it cannot be
    seen. `on_event` is told what happens. Connections that are unused for `idle_after` seconds are closed.
    `request_timeout` is how long a statement may take; leases are then held to it.
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
            raise ConfigurationError(f"idle_after={idle_after!r}: it has to be a number of seconds above 0.")
        if request_timeout is not None and not 0 < seconds(request_timeout) < math.inf:
            raise ConfigurationError(f"request_timeout={request_timeout!r}: it has to be a number of seconds above 0.")
        if password is not None and not callable(password):
            raise ConfigurationError("password has to be a function that gives it; a fixed one stands in the URL.")
        if replica is not None and not (isinstance(replica, str) and replica and replica.isprintable()):
            raise ConfigurationError(f"replica={replica!r}: give some text without control characters.")
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
        """What was counted in this process; see docs/reference/observability.md."""
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
        """A lease by that name. `metadata` is shown to whoever asks who holds it. With `slots` so many may hold it.

        Without `confirm_release`, the end of a block gives it back and does not wait until the database has answered.
        """
        return AsyncLease(self.engine, self.settings(name, ttl, renew_every, metadata, slots, confirm_release))

    def settings(
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
                "confirm_release=False is for a lease without slots: each slot is another lease, "
                "and whoever comes next wants any of them."
            )
        from interlock.coordination.primitives.semaphore import SlotSettings

        return SlotSettings(name, slots, ttl, renew_every, self._request_timeout, metadata)

    def leases(self, *names: str, ttl: Duration = 30.0, metadata: Mapping[str, Any] | None = None) -> "AsyncLeases":
        """Several leases that are held together, or not at all; never a deadlock, in whichever order they are given."""
        from interlock.coordination.lease.several import AsyncLeases

        return AsyncLeases(self.engine, self.several(names, ttl, metadata))

    def several(self, names: Sequence[str], ttl: Duration, metadata: Mapping[str, Any] | None) -> "LeasesSettings":
        from interlock.coordination.lease.several import LeasesSettings

        return LeasesSettings([self.settings(name, ttl, None, metadata, None) for name in names])

    def shared(
        self,
        name: str,
        *,
        readers: int = 20,
        ttl: Duration = 30.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> "AsyncShared":
        """A lease that up to so many `readers` hold together, or one writer alone."""
        from interlock.coordination.primitives.shared import AsyncShared

        return AsyncShared(self.engine, *self.sides(name, readers, ttl, metadata))

    def sides(
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
        """Be one of a group: ``async with locks.join("workers", metadata={"zone": "a"}): …``"""
        from interlock.coordination.primitives.membership import AsyncMembership

        return AsyncMembership(self.engine, group, id, ttl, self._request_timeout, metadata)

    async def members(self, group: str) -> "list[Member]":
        """Who is in it now, by id."""
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
        """The result of ``function(*args)``, which is run by the first call under `key` and recorded, as JSON.

        Calls that come meanwhile wait, `timeout` seconds at most, and take over if the one that runs it dies or fails.
        `args` that differ from the first call's are an `OnceConflict`. With a `connection` the record is part of the
        transaction that is open there: what the function writes in it and the record are committed together, or not.
        Without, ``unfinished="raise"`` notices that somebody began and never came to record it: `OnceInterrupted`.
        """
        if not inspect.iscoroutinefunction(function):
            raise ConfigurationError("AsyncInterlock runs coroutine functions once: use Interlock for others.")
        patience = checked_timeout(timeout)
        once = self.once_settings(key, ttl, args, unfinished=unfinished)
        inside = None
        if connection is not None:
            from interlock.coordination.primitives.user_records import translate_error
            from interlock.user_connections import run_steps

            inside = self.inside(lambda steps: run_steps(connection, steps, translate_error))
        result: T = await once.run(
            self.engine(), asyncio.current_task(), patience, lambda grant: function(*args), inside
        )
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

    def inside(self, ask: "RunSteps") -> "UserTransaction":
        """A transaction of the user's, on a connection of whatever kind."""
        from interlock.coordination.primitives.user_records import UserTransaction

        return UserTransaction(ask, self._named().schema)

    def every(
        self,
        when: str | Duration,
        name: str | None = None,
        *,
        missed: "Missed" = "once",
        timezone: str | None = None,
        ttl: Duration = 30.0,
    ) -> "Callable[[Callable[[AsyncGrant], Awaitable[object]]], AsyncPeriodic]":
        """``@locks.every("5m")`` makes a coroutine function one that all replicas together run every five minutes.

        `when` is an interval or a cron expression, by the clocks of `timezone` (UTC). `name` is that of its lease, by
        default the function's. `missed` says what becomes of ticks at which it was not run: ``"once"``, ``"skip"``, or
        how many of them are run. It is run while the object that comes of it is entered, or by its `run`.
        """
        make = self.periodic(when, missed, timezone, ttl)

        def decorate(function: "Callable[[AsyncGrant], Awaitable[object]]") -> "AsyncPeriodic":
            if not inspect.iscoroutinefunction(function):
                raise ConfigurationError("AsyncInterlock runs coroutine functions: use Interlock for others.")
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
            settings = self.settings(whole_name(name), ttl, None, None, None)
            return AsyncPeriodic(self.engine, settings, ticks, policy, function)

        return make

    def claims(self, scope: str, *, names: "Spelling | None" = None) -> "AsyncClaims":
        """A scope of names, each with one owner; `names` says how they are written: `dns_label`, `host_name`."""
        from interlock.coordination.claims.scope import AsyncClaims
        from interlock.names import plain_name

        return AsyncClaims(lambda: self.schema, scope, names or plain_name)

    async def claim(
        self, connection: Any, scope: str, name: str | None, owner: str, *, timeout: Duration = 0
    ) -> "Claiming | None":
        """Claim a name for an owner, in your own transaction: `Claimed`, `Taken`, `Pending`.

        See docs/reference/claims.md.
        """
        return await self.claims(scope).claim(connection, name, owner, timeout=timeout)

    def session_lock(self, name: str, *, ttl: Duration = 10.0) -> "AsyncSessionLock":
        """A lock that is held as long as a database session lives; it needs a direct connection to PostgreSQL."""
        if self._database is not None:
            with_sessions(self._database)
        from interlock.coordination.session_lock.lock import AsyncSessionLock

        return AsyncSessionLock(self._connect_for_lock, name, schema=self.schema, ttl=ttl)

    async def open(self) -> Self:
        """Look whether the database can serve; raises what is wrong with it."""
        self.engine()
        await self._stores[asyncio.get_running_loop()].verify()
        return self

    async def close(self) -> None:
        """Give back what is held on this event loop, and close its connections."""
        loop = asyncio.get_running_loop()
        self._stores.pop(loop, None)
        engine = self._engines.pop(loop, None)
        if engine is not None and engine.pid == process.pid:
            await _to_its_end(engine.close())

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
        """``FastAPI(lifespan=locks.lifespan)``"""
        async with self:
            yield

    def engine(self) -> Engine:
        """What works on the event loop that runs; made anew in a forked child."""
        loop = asyncio.get_running_loop()
        engine = self._engines.get(loop)
        if engine is None or engine.closed or engine.pid != process.pid:
            self._notice_fork()
            self._forget_ended_loops()
            engine = self._engines[loop] = self._new_engine(loop)
        return engine

    def _notice_fork(self) -> None:
        """A forked child counts for itself, from nothing."""
        if self._pid != process.pid:
            self._pid = process.pid
            self._observer = Observer(self._replica or replica_id(), self._on_event)

    def _forget_ended_loops(self) -> None:
        """Who ran a loop to its end without closing us: nobody else will ever close those connections."""
        for loop in [loop for ref in self._stores.keyrefs() if (loop := ref()) and loop.is_closed()]:
            self._engines.pop(loop, None)
            if store := self._stores.pop(loop, None):  # else another thread was quicker
                store.sever()

    def _new_engine(self, loop: asyncio.AbstractEventLoop) -> Engine:
        database = self._named()
        holder = Holder(self._observer.replica, socket.gethostname(), process.pid)
        store = self._stores[loop] = database.open(holder, self._observer.reconnected)
        return Engine(store, self._observer, database=database, idle_after=self._idle_after)

    def check_database(self) -> None:
        """Raise ConfigurationError if no database is named. Opens nothing."""
        self._named()

    def _named(self) -> LeaseDatabase:
        """The database of the URL; without one, the one that the environment names now, else the embedded one."""
        return self._database or choose_database(embedded.default_url(), self._options)

    async def _connect_for_lock(self) -> "Session":
        return await with_sessions(self._named()).session(f"interlock session lock {self._observer.replica}")


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Even if we are cancelled meanwhile: who closes under a lease is cancelled by that itself."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise
