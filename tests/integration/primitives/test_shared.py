"""Read/write leases: many read or one writes, in order of arrival; guarded transactions never overlap."""

import asyncio
import random
import threading
from typing import Any

import psycopg
import pytest

from interlock import AsyncGrant, AsyncInterlock, Interlock, errors
from interlock.coordination.engine import queue as wait_queue
from interlock.coordination.lease.lease import AsyncLease
from support.lease_engine import holder, queue, until
from support.postgres import execute


@pytest.fixture(autouse=True)
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 3600.0)


def waiters(url: str) -> int:
    return int(execute(url, "SELECT count(*) FROM interlock.waiter")[0][0])


def held(url: str) -> list[str]:
    return [name for (name,) in execute(url, "SELECT name FROM interlock.held_v1('catalog')")]


def recorded_slots(url: str) -> list[int]:
    """Returns the recorded number of slots."""
    return [value for (value,) in execute(url, "SELECT value FROM interlock.record WHERE key = 'catalog##readers'")]


async def queued(lease: AsyncLease, url: str) -> "asyncio.Task[AsyncGrant]":
    before = waiters(url)

    async def acquire() -> AsyncGrant:
        return await lease.acquire()

    task = asyncio.create_task(acquire())
    await until(lambda: waiters(url) > before)
    return task


async def test_readers_read_together_and_a_writer_writes_alone(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    ours, theirs = locks.shared("catalog", readers=3), others.shared("catalog", readers=3)
    readers = [await ours.read().acquire(), await ours.read().try_acquire()]
    assert await theirs.write().try_acquire() is None
    with pytest.raises(errors.LeaseTimeout):
        await theirs.write().acquire(timeout=0.2)
    third = await ours.read().try_acquire()
    assert third is not None
    assert await theirs.read().try_acquire() is None, "there is no slot left"
    for grant in (*readers, third):
        assert grant is not None
        await grant.release()
    await until(lambda: held(interlock_url) == [] and waiters(interlock_url) == 0)
    writer = await theirs.write().try_acquire()
    assert writer is not None
    assert await ours.read().try_acquire() is None
    with pytest.raises(errors.LeaseTimeout):
        await ours.read().acquire(timeout=0.2)
    assert await ours.write().try_acquire() is None
    await writer.release()
    await until(lambda: held(interlock_url) == [] and waiters(interlock_url) == 0)


async def test_a_writer_that_waits_is_not_overtaken_by_readers(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    catalog = locks.shared("catalog", readers=3)
    first = await catalog.read().acquire()
    writer = await queued(others.shared("catalog", readers=3).write(), interlock_url)
    await until(lambda: holder(interlock_url, "catalog") is not None)
    second = await queued(catalog.read(), interlock_url)
    assert await catalog.read().try_acquire() is None
    await first.release()
    grant = await writer
    assert not second.done()
    await grant.release()
    assert (await second).name.startswith("catalog##reader/")


async def test_every_wait_ends_and_writers_are_alone(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    reading = writing = most = 0

    async def work(root: AsyncInterlock, seed: int) -> None:
        nonlocal reading, writing, most
        chance = random.Random(seed)
        for _ in range(4):
            catalog = root.shared("catalog", readers=3)
            if chance.random() < 0.4:
                async with catalog.write():
                    writing += 1
                    assert (writing, reading) == (1, 0)
                    await asyncio.sleep(0.001)
                    writing -= 1
            else:
                async with catalog.read():
                    reading += 1
                    assert writing == 0
                    most = max(most, reading)
                    await asyncio.sleep(0.001)
                    reading -= 1

    await asyncio.gather(*(work(root, seed) for seed, root in enumerate((locks, others) * 4)))
    assert most <= 3


async def test_a_writer_waits_for_a_readers_guarded_transaction(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    reader = await locks.shared("catalog", readers=2).read().acquire()
    async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
        await reader.guard(connection)
        await reader.release()
        assert await others.shared("catalog", readers=2).write().try_acquire() is None
        with pytest.raises(errors.LeaseTimeout):
            await others.shared("catalog", readers=2).write().acquire(timeout=0.3)
        await connection.commit()
    assert await others.shared("catalog", readers=2).write().acquire() is not None


async def read_beyond(locks: AsyncInterlock, fewer: int, readers: int) -> AsyncGrant:
    """A reader in a slot beyond those of replicas with a smaller number."""
    lease = locks.shared("catalog", readers=readers).read()
    grants = await asyncio.gather(*(lease.acquire() for _ in range(readers)))
    beyond, *others = sorted(grants, key=lambda grant: int(grant.name.rpartition("/")[2]) < fewer)
    for grant in others:
        await grant.release()
    return beyond


async def test_a_writer_with_fewer_slots_waits_for_all_recorded_slots(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    """In each round: the next reader raises the number that the writer records."""

    async def write_after(reader: AsyncGrant) -> None:
        writer = await queued(others.shared("catalog", readers=2).write(), interlock_url)
        await until(lambda: queue(interlock_url, reader.name) != [])
        assert not writer.done()
        await reader.release()
        await (await writer).release()
        assert recorded_slots(interlock_url) == [2]

    for _ in range(2):
        await write_after(await read_beyond(locks, 2, 4))


async def test_a_writer_with_fewer_slots_waits_for_a_readers_guarded_transaction(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    reader = await read_beyond(locks, 2, 4)
    async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
        await reader.guard(connection)
        await reader.release()
        assert await others.shared("catalog", readers=2).write().try_acquire() is None
        with pytest.raises(errors.LeaseTimeout):
            await others.shared("catalog", readers=2).write().acquire(timeout=0.3)
        assert recorded_slots(interlock_url) == [4]
        await connection.commit()
    assert await others.shared("catalog", readers=2).write().acquire() is not None


async def test_a_reader_that_loses_admission_while_it_records_its_number_tries_again(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    from interlock.coordination.engine.records import LeaseRecords

    original, lost = LeaseRecords.write, list[str]()

    async def late(records: LeaseRecords, key: str, value: str, grant: AsyncGrant) -> None:
        if not lost:
            lost.append(key)
            execute(interlock_url, "UPDATE interlock.lease SET expires_at = '-infinity' WHERE name = 'catalog'")
        await original(records, key, value, grant)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaseRecords, "write", late)
        reader = await locks.shared("catalog", readers=2).read().acquire()
    assert lost == ["catalog##readers"]
    assert recorded_slots(interlock_url) == [2]
    assert await others.shared("catalog", readers=1).write().try_acquire() is None
    await reader.release()


async def test_waiting_for_oneself_in_a_slot_of_another_replicas_number_is_refused(locks: AsyncInterlock) -> None:
    for _ in range(2):
        reader = await locks.shared("catalog", readers=2).read().try_acquire()
        assert reader is not None
        if reader.name.endswith("/0"):
            known = reader
    await known.release()
    with pytest.raises(errors.LeaseNested):
        await locks.shared("catalog", readers=1).write().acquire()


async def test_a_reader_that_lost_admission_before_it_had_a_slot_is_not_admitted(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    """A writer was admitted meanwhile, and had acquired all slots before the reader took one."""
    from interlock.coordination.engine.engine import Engine

    original = Engine.try_acquire
    writers: list[AsyncGrant] = []

    async def late(engine: Engine, name: str, *args: Any) -> Any:
        if name.startswith("catalog##reader/") and not writers and engine is locks.engine():
            for grant in list(engine._held):  # it was suspended for so long
                engine._held.lose(grant, "expired")
            execute(interlock_url, "UPDATE interlock.lease SET expires_at = '-infinity' WHERE name = 'catalog'")
            writers.append(await others.shared("catalog", readers=2).write().acquire())
        return await original(engine, name, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "try_acquire", late)
        task = await queued(locks.shared("catalog", readers=2).read(), interlock_url)
    (writer,) = writers
    assert not writer.lost
    await until(lambda: held(interlock_url) == ["catalog"])
    assert not task.done()
    await writer.release()
    await task


async def test_a_cancelled_wait_leaves_nothing_behind(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    reader = await locks.shared("catalog", readers=3).read().acquire()
    writer = await queued(others.shared("catalog", readers=3).write(), interlock_url)
    late = await queued(locks.shared("catalog", readers=3).read(), interlock_url)
    for task in (writer, late):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until(lambda: held(interlock_url) == [reader.name] and waiters(interlock_url) == 0)


async def test_waiting_for_oneself_is_refused(locks: AsyncInterlock, interlock_url: str) -> None:
    catalog = locks.shared("catalog")
    async with catalog.read():
        for lease in (catalog.read(), catalog.write()):
            with pytest.raises(errors.LeaseNested):
                await lease.acquire()
    async with catalog.write():
        assert await catalog.write().try_acquire() is None
        for lease in (catalog.read(), catalog.write()):
            with pytest.raises(errors.LeaseNested):
                await lease.acquire()
    assert queue(interlock_url, "catalog") == []


@pytest.mark.parametrize("readers", [0, 1001, "3", None, True])
async def test_an_invalid_number_of_readers_is_refused(locks: AsyncInterlock, readers: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match="use a whole number from 1 to 1000"):
        locks.shared("catalog", readers=readers)


def test_in_threads(sync_locks: Interlock) -> None:
    catalog = sync_locks.shared("catalog", readers=2)
    assert catalog.name == "catalog"
    with catalog.read() as grant:
        grant.check()
        other: list[object] = []
        thread = threading.Thread(target=lambda: other.append(catalog.write().try_acquire()))
        thread.start()
        thread.join()
        assert other == [None]
    with catalog.write() as grant:
        assert grant.name == "catalog"
