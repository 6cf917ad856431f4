"""A real store for one test. The test can let time pass, take a lease away, or let another holder have a lease.

Nothing is simulated: another holder takes the lease away in the same store, and the previous holder learns of the loss
from the store at its next renewal, which the test only triggers earlier. A test that lets time pass moves the clocks of
the store and of this process.
"""

import asyncio
import itertools
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from interlock import clock
from interlock.bridge import LoopThread
from interlock.config import environment_name
from interlock.coordination.backends.choice import OpenStore, StoreOptions, choose_database
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import Duration, seconds
from interlock.coordination.sync.grant import Grant
from interlock.coordination.sync.root import Interlock
from interlock.embedded import Cluster
from interlock.errors import ConfigurationError
from interlock.schema import whole_schema
from interlock.stores.leases import AcquireRequest, GrantIdentity, Holder
from interlock.stores.postgres import connect, quote_identifier

_OTHER_HOLDER = "another"
_TIMEOUT = 10.0
_numbers = itertools.count(1)
# The data of a test need not survive a crash of the machine.
_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Bench:
    """The test's store. Interlock's environment variables name its `url`, and for PostgreSQL its `schema`, so that
    ``Interlock()`` uses it."""

    def __init__(self, url: str, schema: str | None, thread: LoopThread, shift: Callable[[float], None]) -> None:
        self.url = url
        self.schema = schema
        self._thread = thread
        self._shift = shift
        self._roots: dict[str | None, Interlock] = {}

    @property
    def locks(self) -> Interlock:
        """A root object on the store. The fixture closes it after the test."""
        return self._root(None)

    @contextmanager
    def held_elsewhere(self, name: str, *, ttl: Duration = 30.0, slots: int | None = None) -> Iterator[Grant]:
        """Another holder has the lease until the block ends or the yielded grant is released."""
        with self._root(_OTHER_HOLDER).lease(name, ttl=ttl, slots=slots).acquire(_TIMEOUT) as grant:
            yield grant

    def lose(self, grant: Grant, *, told: bool = True) -> None:
        """Another holder takes the lease away. With ``told=False`` the holder of `grant` is not notified, and only a
        guard can stop its writes."""
        self._steal(grant)
        if told:
            known = threading.Event()
            grant.on_lost(lambda why: known.set())
            _hurry(grant)
            if not known.wait(_TIMEOUT):
                raise ConfigurationError(f"{grant!r} was not notified of its loss within {_TIMEOUT:g} s: see the log.")

    async def alose(self, grant: AsyncGrant, *, told: bool = True) -> None:
        """Like `lose`, for async code. Called inside the `async with` block of this lease, it is cancelled, because the
        loss cancels the block."""
        await asyncio.to_thread(self._steal, grant)
        if told:
            grant.engine.renew_soon(grant)
            async with asyncio.timeout(_TIMEOUT):
                await grant.wait_lost()

    def move_time(self, by: Duration) -> None:
        """Let `by` pass at once, in the store and in this process, without any renewal meanwhile."""
        if not seconds(by) > 0:
            raise ConfigurationError(f"move_time() takes a number of seconds above 0, not {by!r}.")
        self._shift(seconds(by))

    def close(self) -> None:
        for root in self._roots.values():
            root.close()

    def _root(self, replica: str | None) -> Interlock:
        if replica not in self._roots:
            self._roots[replica] = Interlock(self.url, schema=self.schema, replica=replica)
        return self._roots[replica]

    def _steal(self, grant: GrantIdentity) -> None:
        self._thread.run(_steal(self._store, grant))

    def _store(self) -> OpenStore:
        options = StoreOptions(None, self.schema, "detect", _TIMEOUT)
        holder = Holder(_OTHER_HOLDER, socket.gethostname(), os.getpid())
        return choose_database(self.url, options).open(holder, lambda what: None)


async def _steal(open_store: Callable[[], OpenStore], grant: GrantIdentity) -> None:
    store = open_store()
    try:
        await store.release([grant])
        ask = AcquireRequest(grant.name, uuid4(), grant.ttl, None, wait=False)
        while (status := (await store.acquire([ask]))[0].status) == "changing":
            pass
        if status not in ("granted", "busy"):  # busy: a waiter has the lease now
            raise ConfigurationError(
                f"The lease {grant.name!r} cannot be taken away while a transaction carries its guard: "
                "end that transaction first."
            )
    finally:
        await store.close()


def _hurry(grant: Grant) -> None:
    async def renew_soon() -> None:
        grant._grant.engine.renew_soon(grant._grant)

    grant._thread.run(renew_soon())


@contextmanager
def bench(server: str | None, paths: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Yields a bench on a new schema of `server`, or on a new SQLite file. The patches stay until `patch` is undone."""
    thread = LoopThread("interlock pytest")
    try:
        if server is None:
            made = Bench(f"sqlite:///{paths.mktemp('interlock')}/leases.db", None, thread, _local_clock(patch))
            with _in_environment(made, patch):
                yield made
        else:
            with _schema(server, thread) as schema:
                made = Bench(server, schema, thread, _both_clocks(server, schema, thread, patch))
                with _in_environment(made, patch):
                    yield made
    finally:
        thread.close()


@contextmanager
def _in_environment(made: Bench, patch: pytest.MonkeyPatch) -> Iterator[None]:
    patch.setenv(environment_name("database_url"), made.url)
    if made.schema is None:
        patch.delenv(environment_name("schema"), raising=False)
    else:
        patch.setenv(environment_name("schema"), made.schema)
    try:
        yield
    finally:
        made.close()


@contextmanager
def _schema(url: str, thread: LoopThread) -> Iterator[str]:
    schema = f"interlock_test_{os.getpid()}_{next(_numbers)}"
    thread.run(_execute(url, whole_schema(schema)))
    try:
        yield schema
    finally:
        thread.run(_execute(url, f"DROP SCHEMA {quote_identifier(schema)} CASCADE"))


async def _execute(url: str, script: str) -> None:
    async with await connect(url, application_name="interlock pytest") as session:
        await session.execute(script)


def _local_clock(patch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Returns a function that moves this process's clock. By this clock the process trusts its leases, and leases in a
    SQLite file expire."""
    ahead = 0.0

    class Ahead:
        @staticmethod
        def clock_gettime(which: int) -> float:
            return time.clock_gettime(which) + ahead

    def shift(by: float) -> None:
        nonlocal ahead
        ahead += by
        patch.setattr(clock, "time", Ahead)

    return shift


def _both_clocks(url: str, schema: str, thread: LoopThread, patch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Returns a function that moves the database's clock and then this process's clock. In this order no holder trusts,
    after the move, a lease that has expired in the database."""
    local, ahead = _local_clock(patch), 0.0

    def shift(by: float) -> None:
        nonlocal ahead
        ahead += by
        now = f"{quote_identifier(schema)}.now_v1()"
        body = f"SELECT pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => {ahead!r})"
        thread.run(
            _execute(
                url,
                f"CREATE OR REPLACE FUNCTION {now} RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE "
                f"AS $$ {body} $$",
            )
        )
        local(by)

    return shift


@contextmanager
def embedded_server() -> Iterator[str]:
    """Yields the URL of a PostgreSQL for the whole run. If root runs the tests, PostgreSQL's system user can
    enter its directory."""
    directory = Path(tempfile.mkdtemp(prefix="interlock-pytest-"))
    directory.chmod(0o755)
    cluster = Cluster(directory / "pg", port="free", settings=_QUICK)
    try:
        cluster.create()
        with cluster.shared():
            try:
                yield cluster.url()
            finally:
                cluster.stop("immediate")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
