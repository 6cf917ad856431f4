"""The queue of a session lock: first come, first served, without blocking other work."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from interlock import errors
from interlock.coordination.session_lock.grant import AsyncSessionGrant
from interlock.coordination.session_lock.lock import AsyncSessionLock
from interlock.embedded import Cluster
from support.postgres import execute
from support.session_locks import (
    end,
    holder,
    in_line,
    is_midway,
    line_key,
    locks_at,
    next_step_of,
    sessions,
)
from support.waiting import eventually

Locks = Callable[..., AsyncSessionLock]


@pytest.fixture
def locks(database_url: str) -> Locks:
    return locks_at(database_url)


async def until(look: Callable[[], object]) -> None:
    await asyncio.to_thread(eventually, look)


async def another_step(url: str, pid: int) -> None:
    """Wait until the waiter has ended its present step and begun the next."""
    step = next_step_of(url, pid)
    await until(lambda: next_step_of(url, pid) != step)


async def acquired(lock: AsyncSessionLock) -> AsyncSessionGrant:
    return await lock.acquire()


class Queue:
    """Waiters that come one after the other, and their results."""

    def __init__(self, url: str, locks: Locks) -> None:
        self._url = url
        self._locks = locks
        self._tasks: list[asyncio.Task[None]] = []
        self.pids: list[int] = []
        self.served: list[int] = []

    async def add(self) -> int:
        """Add a waiter at the end; return the pid of its server process."""
        self._tasks.append(asyncio.create_task(self._wait(len(self._tasks))))
        await until(lambda: len(in_line(self._url)) > len(self.pids))
        (pid,) = set(in_line(self._url)) - set(self.pids)
        self.pids.append(pid)
        return pid

    async def all_served(self) -> list[int]:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return self.served

    async def _wait(self, number: int) -> None:
        async with self._locks():
            self.served.append(number)


@asynccontextmanager
async def queue_behind_a_holder(url: str, locks: Locks) -> AsyncIterator[Queue]:
    """The lock is held until the end of the block."""
    queue = Queue(url, locks)
    async with locks():
        yield queue


async def test_first_come_first_served_however_long_they_wait(locks: Locks, database_url: str) -> None:
    """Each wait is made of steps. The second waiter comes during a step of the first, so the first begins its
    next step when the second is waiting already; then the lock is released."""
    async with queue_behind_a_holder(database_url, locks) as queue:
        first = await queue.add()
        await until(lambda: is_midway(database_url, first))
        await queue.add()
        await queue.add()
        await another_step(database_url, first)
    assert await queue.all_served() == [0, 1, 2]


async def test_many_waiters_are_served_in_order(locks: Locks, database_url: str) -> None:
    async with queue_behind_a_holder(database_url, locks) as queue:
        await asyncio.gather(*[another_step(database_url, await queue.add()) for _ in range(8)])
    assert await queue.all_served() == list(range(8))


@pytest.mark.parametrize("dead", [0, 1, 2])
async def test_the_waiters_behind_a_dead_one_move_up(locks: Locks, database_url: str, dead: int) -> None:
    async with queue_behind_a_holder(database_url, locks) as queue:
        for _ in range(3):
            await queue.add()
        end(database_url, queue.pids[dead])
    assert await queue.all_served() == [number for number in range(3) if number != dead]


async def test_a_try_does_not_overtake_waiters(locks: Locks, database_url: str) -> None:
    """Between two steps of a waiter the lock may be free for a moment; in this test the moment is long."""
    with psycopg.connect(database_url, autocommit=True) as waiter:
        waiter.execute("SELECT pg_advisory_lock_shared(%s, %s)", line_key())
        assert holder(database_url) is None
        assert await locks().try_acquire() is None
        async with locks("another").acquire(timeout=0):
            pass


async def test_the_queues_of_two_locks_are_independent(locks: Locks, database_url: str) -> None:
    async with locks("another"):
        waiting = asyncio.create_task(acquired(locks("another")))
        await until(lambda: in_line(database_url, "another"))
        async with queue_behind_a_holder(database_url, locks) as queue:
            await queue.add()
        assert await queue.all_served() == [0]
        assert not waiting.done()
    await (await waiting).release()


async def test_waiters_do_not_block_create_index_concurrently(
    locks: Locks, database_url: str, record_property: Callable[[str, object], None]
) -> None:
    """The holder builds an index on another connection, so the server would not detect a deadlock."""
    execute(database_url, "CREATE TABLE orders (id int)")
    build = "SET statement_timeout = '20s'; CREATE INDEX CONCURRENTLY orders_id ON orders (id)"
    async with queue_behind_a_holder(database_url, locks) as queue:
        for _ in range(3):
            await queue.add()
        began = time.monotonic()
        with psycopg.connect(database_url, autocommit=True) as migration:
            for statement in build.split(";"):
                await asyncio.to_thread(migration.execute, statement)
        took = time.monotonic() - began
        assert queue.served == []
    assert await queue.all_served() == [0, 1, 2]
    record_property("figure", f"CREATE INDEX CONCURRENTLY beside three waiters for a session lock: {took:.2f} s")


async def test_waiting_does_not_fill_the_servers_log(locks: Locks, database_url: str, cluster: Cluster) -> None:
    async with queue_behind_a_holder(database_url, locks) as queue:
        pid = await queue.add()
        await another_step(database_url, pid)
    await queue.all_served()
    lines = cluster.log_tail(1000).splitlines()
    assert not [queue for queue in lines if f"[{pid}]" in queue and "lock timeout" in queue]


async def test_a_waiter_whose_session_is_ended_gets_an_error_and_leaves_the_queue(
    locks: Locks, database_url: str
) -> None:
    async with locks() as grant:
        waiting = asyncio.create_task(acquired(locks()))
        await until(lambda: in_line(database_url))
        end(database_url, in_line(database_url)[0])
        with pytest.raises(errors.ConnectionLost):
            await waiting
        assert sessions(database_url) == {grant.backend_pid}
