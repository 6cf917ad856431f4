"""A replica: a process that runs steps, starts recorded orchestrations, and reports their status.

Crashes: `start` records a request and then passes it to the engine. A crash between the two leaves a record, which the
outbox starts. A crash while steps run leaves locks that expire after five seconds; other replicas then continue.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Any, Generic, Self, TypedDict, TypeVar

from interlock import embedded, errors
from interlock.config import check_schema_name, own_schema
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import Duration, checked_timeout, seconds
from interlock.coordination.root import AsyncInterlock
from interlock.durable.completion import CompletionWaiters
from interlock.durable.database import EngineDatabase, Statements, fetch_value
from interlock.durable.declarations import Orchestration, Orchestrations, Registry
from interlock.durable.engine import DuroxideEngine
from interlock.durable.engine_renewal import EngineRenewal
from interlock.durable.failures import ActivityFailure
from interlock.durable.outbox import Outbox
from interlock.durable.requests import StartRequest, check_known
from interlock.durable.run import end_error, engine_input
from interlock.durable.server_access import primary_access
from interlock.durable.status import HistoryEvent, OrchestrationStatus, history_of
from interlock.durable.worker import ActivityWorker
from interlock.logs import events
from interlock.stores.postgres import Password
from interlock.stores.postgres.url import checked, to_the_primary

log = events(__name__)

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741

_LARGEST_SKEW = 2.0
"""The largest accepted difference, in seconds, to the database's clock.

The engine's locks of 5 s use this machine's clock.
"""
_MARGIN = 5.0
_SWEEP_EVERY = 1.0
_PASSWORD_LASTS = 600.0
"""Seconds for which an engine keeps a password. Tokens of cloud providers are valid for a quarter of an hour."""
_PRUNE_EVERY = 3600.0


class DurableOptions(TypedDict, total=False):
    """The options of a replica; see `AsyncDurable`."""

    url: str | None
    password: Password | None
    schema: str | None
    concurrency: int
    retention: Duration
    patience: Duration | None


class AsyncOrchestrationHandle(Generic[O]):
    """An orchestration that was requested."""

    def __init__(self, durable: "AsyncDurable", id: str, orchestration: Orchestration[Any, O]) -> None:  # noqa: A002
        self.id = id
        self._durable = durable
        self._orchestration = orchestration

    async def wait(self, timeout: Duration | None = None) -> O:
        """Wait for the orchestration's result.

        Raises `OrchestrationFailed`, `OrchestrationCancelled`, or TimeoutError.
        """
        async with asyncio.timeout(checked_timeout(timeout)):
            ending = await self._durable._waiters.wait_for(self.id)
        if not ending.completed:
            raise end_error(self.id, ActivityFailure.read(ending.output))
        return self._orchestration.output.load(json.loads(ending.output))

    async def status(self) -> OrchestrationStatus:
        return await self._durable.status(self.id)

    async def cancel(self, reason: str = "") -> None:
        await self._durable.cancel(self.id, reason)


class AsyncDurable:
    """``async with AsyncDurable(work) as durable:`` runs activities and orchestrations until the block ends.

    `url` defaults to ``INTERLOCK_DATABASE_URL``, else to the database of the `interlock up` that runs on this machine.
    `password` is called for each connection, and every ten minutes for the engine's connections. `concurrency` is the
    number of activities that this replica runs at once; 0 runs none, for a process that only makes requests. An
    orchestration is deleted when the time `retention` has passed since its end. When the block ends, running activities
    have `patience` seconds to finish; they are then interrupted, and other replicas repeat them. `patience=None` waits
    for running activities up to their own timeouts.
    """

    def __init__(
        self,
        *parts: Orchestrations,
        url: str | None = None,
        password: Password | None = None,
        schema: str | None = None,
        concurrency: int = 8,
        retention: Duration = 30 * 86400.0,
        patience: Duration | None = None,
    ) -> None:
        if schema is not None:
            check_schema_name(schema)
        if not 0 <= concurrency <= 1000:
            raise errors.ConfigurationError(f"concurrency={concurrency} is not valid: use 0 to 1000.")
        if password is not None and not callable(password):
            raise errors.ConfigurationError(
                "password has to be a function that returns the password: put a fixed password into the URL."
            )
        self._declared = Registry(*parts)
        self._url = url
        self._password = password
        self._schema = schema or own_schema()
        self.statements = Statements(self._schema)
        self._concurrency = concurrency
        self._retention = seconds(retention)
        self._patience = checked_timeout(patience)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._open(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def start(
        self,
        orchestration: Orchestration[I, O],
        id: str,  # noqa: A002
        value: I,
        *,
        connection: Any = None,
    ) -> AsyncOrchestrationHandle[O]:
        """Start an orchestration under an `id` of your choice.

        A repetition with the same input changes nothing; with a different input it raises `OrchestrationConflict`. With
        `connection`, the request is part of the transaction on that connection, and the orchestration starts within
        seconds of the commit.
        """
        request = StartRequest(orchestration, id, value)
        if connection is not None:
            request.is_new(await fetch_value(connection, self.statements["record"], *request.args))
        elif request.is_new(await self._database.value("record", *request.args)):
            await self._start_now(request)
        return self.handle(orchestration, id)

    def handle(self, orchestration: Orchestration[Any, O], id: str) -> AsyncOrchestrationHandle[O]:  # noqa: A002
        """Returns the handle of an orchestration that was requested before."""
        return AsyncOrchestrationHandle(self, id, orchestration)

    async def status(self, id: str) -> OrchestrationStatus:  # noqa: A002
        return OrchestrationStatus.of(await self._row(id))

    async def list(
        self, prefix: str = "", *, unfinished: bool = False, limit: int = 100
    ) -> Sequence[OrchestrationStatus]:
        """Returns the orchestrations whose ids begin with `prefix`, the newest first."""
        rows = await self._database.fetch("list", prefix, unfinished, limit)
        return [OrchestrationStatus.of(row) for row in rows]

    async def history(self, id: str) -> Sequence[HistoryEvent]:  # noqa: A002
        await self._row(id)
        return history_of(await self._database.fetch("history", id))

    async def cancel(self, id: str, reason: str = "", *, connection: Any = None) -> None:  # noqa: A002
        """Cancel an orchestration; its clean-up runs afterwards. An orchestration that has ended stays as it is."""
        if connection is None:
            check_known(id, await self._database.value("cancel", id, reason))
        else:
            check_known(id, await fetch_value(connection, self.statements["cancel"], id, reason))

    async def begin(self, id: str) -> None:  # noqa: A002
        """Start a recorded orchestration at once, after the commit. Otherwise it starts within seconds."""
        row = await self._row(id)
        if row["cancel_requested_at"] is None:
            with self._left_to_outbox(id):
                await self._begin(row)

    async def send(self, id: str, event: str, value: Any) -> None:  # noqa: A002
        """Send an event for `Run.event`. The event is kept until the orchestration reads it."""
        await self._begin(await self._row(id))
        await self._engine.send(id, event, value)

    async def prune(self, older_than: Duration) -> int:
        """Delete orchestrations that ended longer than `older_than` ago.

        Returns the number of deleted orchestrations.
        """
        return await self._outbox.prune(seconds(older_than))

    async def _open(self, stack: AsyncExitStack) -> None:
        self._database = self._open_database(stack)
        await self._database.check()
        await self._check_clock()
        self._waiters = CompletionWaiters(self._database)
        stack.push_async_callback(self._waiters.close)
        worker = self._open_worker(stack) if self._concurrency else None
        self._engines = EngineRenewal(
            partial(self._make_engine, worker),
            self._database,
            lifetime=_PASSWORD_LASTS if self._password else None,
            close_timeout=self._declared.longest_timeout + _MARGIN if worker else 0.0,
        )
        await self._engines.open()
        stack.push_async_callback(self._end, worker)
        self._outbox = Outbox(self._database, lambda: self._engine)
        if worker:
            await self._run_outbox(stack)

    async def _end(self, worker: ActivityWorker | None) -> None:
        if worker:
            worker.begin_closing()
        ending = asyncio.create_task(self._engines.close())
        await asyncio.wait([ending], timeout=self._patience)
        if worker:
            worker.interrupt()
        await ending

    def _open_database(self, stack: AsyncExitStack) -> EngineDatabase:
        database = EngineDatabase(self._full_url(), self._schema, self._password)
        stack.push_async_callback(database.close)
        return database

    def _open_worker(self, stack: AsyncExitStack) -> ActivityWorker:
        attempts = self._open_database(stack)  # a connection of their own, so that they do not wait for starts
        worker = ActivityWorker(self._declared, attempts, asyncio.get_running_loop())
        stack.callback(worker.interrupt)
        return worker

    async def _make_engine(self, worker: ActivityWorker | None) -> DuroxideEngine:
        async with primary_access(self._full_url(), self._password) as (url, session):
            engine = await DuroxideEngine.connect(url, self._schema, session)
        if worker:
            engine.run(self._declared, worker.perform, self._concurrency)
        return engine

    async def _run_outbox(self, stack: AsyncExitStack) -> None:
        url = to_the_primary(self._full_url())
        locks = await stack.enter_async_context(AsyncInterlock(url, password=self._password, schema=self._schema))

        @locks.every(_SWEEP_EVERY, "interlock:orchestrations", missed="skip", ttl=5)
        async def sweep(grant: AsyncGrant) -> None:
            await self._outbox.sweep()

        @locks.every(_PRUNE_EVERY, "interlock:orchestrations:prune", missed="skip")
        async def prune(grant: AsyncGrant) -> None:
            await self._outbox.prune(self._retention)

        for kept in (sweep, prune):
            stack.push_async_callback(_cancel_and_wait, kept.in_background())

    @property
    def _engine(self) -> DuroxideEngine:
        return self._engines.current

    def _full_url(self) -> str:
        return checked(self._url or embedded.default_url())

    async def _start_now(self, request: StartRequest[Any]) -> None:
        with self._left_to_outbox(request.id):
            await self._engine.start(
                request.id, request.orchestration.name, request.orchestration.version, request.content
            )

    async def _begin(self, row: Any) -> None:
        """Start an orchestration, unless it was started before."""
        if row["started_at"] is None and row["outcome"] is None:
            content = engine_input(row["id"], json.loads(row["input"]))
            await self._engine.start(row["id"], row["name"], row["version"], content)

    @contextmanager
    def _left_to_outbox(self, id: str) -> Iterator[None]:  # noqa: A002
        """Ignore a `StoreError`, because the request is recorded: the outbox starts the orchestration later."""
        try:
            yield
        except errors.StoreError as error:
            log.warning("orchestration.not_started_yet", extra={"orchestration": id, "why": str(error)})

    async def _check_clock(self) -> None:
        """Compare the database's clock with this machine's clock.

        The database reads its clock at an unknown time during the request, so a slow answer gives a vague difference.
        """
        skew, doubt = min([await self._skew() for _ in range(2)], key=lambda seen: seen[1])
        if abs(skew) > _LARGEST_SKEW + doubt:
            raise errors.ClockSkewed(
                f"The clocks of the database and of this machine differ by {skew:.1f} s, and the engine's locks use "
                f"this machine's clock: set both clocks by NTP. At most {_LARGEST_SKEW:g} s are accepted."
            )

    async def _skew(self) -> tuple[float, float]:
        """Returns the database's clock minus this machine's clock, and the possible error of that difference."""
        asked_at = time.time()
        theirs = await self._database.value("clock")
        answered_at = time.time()
        return theirs - (asked_at + answered_at) / 2, (answered_at - asked_at) / 2

    async def _row(self, id: str) -> Any:  # noqa: A002
        rows = await self._database.fetch("read", id)
        check_known(id, rows)
        return rows[0]


async def _cancel_and_wait(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
