"""A real store for one test, and what may happen to leases in it: time goes by, a lease is lost, another has it.

Nothing is imitated: who takes a lease away is another holder in the same store, and the one that had it learns of that
from the store, at its next renewal, which only comes sooner. Time is the store's and this process's.
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

_OTHER = "another"
_TIMEOUT = 10.0
_numbers = itertools.count(1)
# What a test loses when the machine goes is of no worth.
_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Bench:
    """`url`, with `schema` where the store has such a thing, is what ``Interlock()`` finds in the environment."""

    def __init__(self, url: str, schema: str | None, thread: LoopThread, shift: Callable[[float], None]) -> None:
        self.url = url
        self.schema = schema
        self._thread = thread
        self._shift = shift
        self._roots: dict[str | None, Interlock] = {}

    @property
    def locks(self) -> Interlock:
        """A root object on the store. It is closed after the test."""
        return self._root(None)

    @contextmanager
    def held_elsewhere(self, name: str, *, ttl: Duration = 30.0, slots: int | None = None) -> Iterator[Grant]:
        """Another holds it, and keeps it until the block ends or that grant is released."""
        with self._root(_OTHER).lease(name, ttl=ttl, slots=slots).acquire(_TIMEOUT) as grant:
            yield grant

    def lose(self, grant: Grant, *, told: bool = True) -> None:
        """Another takes it away. With ``told=False`` its holder does not know yet: only a guard can stop it."""
        self._steal(grant)
        if told:
            known = threading.Event()
            grant.on_lost(lambda why: known.set())
            _hurry(grant)
            if not known.wait(_TIMEOUT):
                raise ConfigurationError(f"{grant!r} was not told that it is lost: look at the log.")

    async def alose(self, grant: AsyncGrant, *, told: bool = True) -> None:
        """The same. Who awaits this in the body of that very grant is cancelled, as whoever loses a lease is."""
        await asyncio.to_thread(self._steal, grant)
        if told:
            grant.engine.renew_soon(grant)
            async with asyncio.timeout(_TIMEOUT):
                await grant.wait_lost()

    def move_time(self, by: Duration) -> None:
        """So much time goes by at once, in the store and in this process; nobody has renewed anything meanwhile."""
        if not seconds(by) > 0:
            raise ConfigurationError(f"Time goes forward: move it by some seconds, not by {by!r}.")
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
        holder = Holder(_OTHER, socket.gethostname(), os.getpid())
        return choose_database(self.url, options).open(holder, lambda what: None)


async def _steal(open_store: Callable[[], OpenStore], grant: GrantIdentity) -> None:
    store = open_store()
    try:
        await store.release([grant])
        ask = AcquireRequest(grant.name, uuid4(), grant.ttl, None, wait=False)
        while (status := (await store.acquire([ask]))[0].status) == "changing":
            pass
        if status not in ("granted", "busy"):  # busy: whoever waited for it has it
            raise ConfigurationError(
                f"The lease {grant.name!r} cannot be taken away while a transaction guards it: end that before."
            )
    finally:
        await store.close()


def _hurry(grant: Grant) -> None:
    async def renew_soon() -> None:
        grant._grant.engine.renew_soon(grant._grant)

    grant._thread.run(renew_soon())


@contextmanager
def bench(server: str | None, paths: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """On a schema of its own there, or in a file of its own. Whatever is patched stays so until `patch` is undone."""
    thread = LoopThread("interlock pytest")
    try:
        if server is None:
            made = Bench(f"sqlite:///{paths.mktemp('interlock')}/leases.db", None, thread, _local_clock(patch))
            with _announced(made, patch):
                yield made
        else:
            with _schema(server, thread) as schema:
                made = Bench(server, schema, thread, _both_clocks(server, schema, thread, patch))
                with _announced(made, patch):
                    yield made
    finally:
        thread.close()


@contextmanager
def _announced(made: Bench, patch: pytest.MonkeyPatch) -> Iterator[None]:
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
    """The clock that trust is counted on; leases in a file go by it as well."""
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
    """The database's first: then nobody here trusts what is over there."""
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
    """A PostgreSQL for the whole run, where the user that runs it can get if we are root."""
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
