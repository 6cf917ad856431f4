"""The file is locked: by a user's own transaction, or by a stopped process that holds the writer lock."""

import asyncio
import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from interlock import AsyncInterlock
from interlock.errors import LockNotAvailable
from interlock.stores.leases import AcquireRequest
from interlock.stores.sqlite.leases import SqliteLeases
from interlock.stores.sqlite.writer_lock import ENTRY, WRITER


@contextmanager
def stopped_process_holds(file: Path, lock: str) -> Iterator[None]:
    """Hold the lock as a stopped process does."""
    with file.with_name(f"{file.name}-interlock").joinpath(lock).open("rb+") as blocked:
        fcntl.flock(blocked, fcntl.LOCK_EX)
        yield


def store_of(locks: AsyncInterlock) -> SqliteLeases:
    store = locks._stores[asyncio.get_running_loop()]
    assert isinstance(store, SqliteLeases)
    return store


async def test_a_failing_attempt_waits_for_no_writer(locks: AsyncInterlock, mine: sqlite3.Connection) -> None:
    grant = await locks.lease("feeds").acquire()
    mine.execute("BEGIN IMMEDIATE")
    changes = mine.execute("PRAGMA data_version").fetchone()
    (answer,) = await store_of(locks).acquire([AcquireRequest("feeds", uuid4(), 30.0, None, wait=False)])
    assert (answer.status, answer.holder) == ("busy", "one")  # and not: locked
    mine.execute("ROLLBACK")
    assert mine.execute("PRAGMA data_version").fetchone() == changes
    await grant.release()


async def test_the_wait_for_a_users_transaction_is_limited(locks: AsyncInterlock, mine: sqlite3.Connection) -> None:
    grant = await locks.lease("feeds").acquire()
    mine.execute("BEGIN IMMEDIATE")
    assert await locks.lease("other").try_acquire() is None
    with pytest.raises(LockNotAvailable):
        await store_of(locks).renew([grant], 0.1)
    assert await grant.release() is True  # the release reaches the store later
    waiter = asyncio.create_task(locks.lease("feeds").acquire()._acquisition)
    mine.execute("COMMIT")
    await (await waiter).release()


@pytest.mark.parametrize("lock", [ENTRY, WRITER])
async def test_a_stopped_process_that_holds_the_writer_lock_blocks_only_writers(
    locks: AsyncInterlock, file: Path, lock: str
) -> None:
    grant = await locks.lease("feeds").acquire()
    with stopped_process_holds(file, lock):
        assert await locks.lease("other").try_acquire() is None
        assert await locks.lease("feeds").try_acquire() is None
        with pytest.raises(LockNotAvailable):
            await store_of(locks).renew([grant], 0.1)
    assert not (await store_of(locks).renew([grant], 5.0)).lost
    other = await locks.lease("other").acquire()
    await other.release()


async def test_a_job_that_was_given_up_is_not_run_later(
    locks: AsyncInterlock, file: Path, mine: sqlite3.Connection
) -> None:
    await locks.open()
    with stopped_process_holds(file, WRITER):
        assert await locks.lease("feeds").try_acquire() is None
    await store_of(locks).verify()  # behind it in the queue
    assert mine.execute("SELECT count(*) FROM interlock_lease").fetchone() == (0,)


async def test_closing_does_not_wait_for_the_writer_lock(url: str, file: Path) -> None:
    locks = AsyncInterlock(url)
    await locks.open()
    with stopped_process_holds(file, WRITER):
        assert await locks.lease("feeds").try_acquire() is None
        await locks.close()


async def test_jobs_that_arrive_together_share_a_transaction(locks: AsyncInterlock, file: Path) -> None:
    await locks.open()
    begun: list[str] = []
    writer = store_of(locks)._writer
    connection = writer._connection
    assert connection is not None
    connection.set_trace_callback(lambda statement: begun.append(statement) if statement == "BEGIN IMMEDIATE" else None)
    with stopped_process_holds(file, WRITER):
        jobs = [asyncio.create_task(writer.run(lambda transaction: None, lock_timeout=20)) for _ in range(11)]
        while len(writer._worker._jobs) != 10:  # noqa: ASYNC110 - until the thread waits for the lock with the first
            await asyncio.sleep(0.01)
    await asyncio.gather(*jobs)
    assert len(begun) == 1
