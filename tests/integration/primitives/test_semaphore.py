"""A lease with slots: never more holders than slots, in order of arrival, and nothing left behind."""

import asyncio
import threading
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from interlock import AsyncGrant, AsyncInterlock, Interlock, errors
from interlock.coordination.engine import queue as wait_queue
from interlock.coordination.primitives import admission
from support.lease_engine import fail, holder, queue, sessions, stop_after, until
from support.postgres import execute

HELD = "SELECT name FROM interlock.held_v1('openai##slot/')"


@pytest.fixture(autouse=True)
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """No polls: a waiter is notified, or waits without end."""
    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 3600.0)


def held(url: str) -> list[str]:
    return [name for (name,) in execute(url, HELD)]


def waiters(url: str) -> int:
    return int(execute(url, "SELECT count(*) FROM interlock.waiter")[0][0])


def waits_for_slot(url: str, number: int = 0) -> bool:
    """True if a caller waits in the queue of that slot."""
    return bool(queue(url, f"openai##slot/{number}"))


async def acquire(locks: AsyncInterlock, count: int, **settings: Any) -> AsyncGrant:
    return await locks.lease("openai", slots=count, **settings).acquire()


async def queued(locks: AsyncInterlock, url: str, count: int) -> "asyncio.Task[AsyncGrant]":
    """Start one more waiter, with the admission lease or for it."""
    before = waiters(url)
    task = asyncio.create_task(acquire(locks, count))
    await until(lambda: waiters(url) > before)
    return task


async def test_as_many_hold_it_as_there_are_slots_and_no_more(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grants = [await acquire(root, 4) for root in (locks, others, locks, others)]
    assert len({grant.name for grant in grants}) == 4
    assert await others.lease("openai", slots=4).try_acquire() is None
    with pytest.raises(errors.LeaseTimeout, match="The lease 'openai' was not acquired"):
        await others.lease("openai", slots=4).acquire(timeout=0.2)
    with pytest.raises(errors.LeaseTimeout):
        await others.lease("openai", slots=4).acquire(timeout=0)
    await until(lambda: waiters(interlock_url) == 0)  # a waiter that gave up leaves the queues in the background
    await grants[2].release()
    again = await others.lease("openai", slots=4).try_acquire()
    assert again is not None
    assert again.name == grants[2].name
    await until(lambda: waiters(interlock_url) == 0)


async def test_waiters_are_served_in_order_of_arrival_with_any_slot(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grants = [await acquire(locks, 3) for _ in range(3)]
    tasks = []
    for number in range(6):
        tasks.append(await queued(others if number % 2 else locks, interlock_url, 3))
        await until(lambda: waits_for_slot(interlock_url))
    served: list[AsyncGrant] = []
    for place, task in enumerate(tasks):
        grant = (grants + served)[place]
        await grant.release()
        served.append(await task)
        assert served[-1].name == grant.name, "it is the slot that was freed"
        assert [other.done() for other in tasks] == [True] * (place + 1) + [False] * (5 - place)
        if place < 5:
            await until(lambda: waits_for_slot(interlock_url, 0) and waits_for_slot(interlock_url, 2))


async def test_a_newcomer_does_not_overtake_the_holder_of_admission(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "release")
    grants = [await acquire(locks, 2) for _ in range(2)]
    task = await queued(locks, interlock_url, 2)
    await until(lambda: waits_for_slot(interlock_url, 0) and waits_for_slot(interlock_url, 1))
    releasing = asyncio.create_task(grants[0].release())
    await stop.reached()  # the slot was released, and its former holder has no answer yet
    got_past = await others.lease("openai", slots=2).try_acquire()
    stop.go()
    assert got_past is None
    await releasing
    assert (await task).name == grants[0].name


@pytest.mark.parametrize("moment", ["it queues for admission", "it has admission"])
async def test_a_newcomer_does_not_overtake_the_next_before_that_has_tried_a_slot(
    locks: AsyncInterlock, interlock_url: str, moment: str
) -> None:
    """A slot is free, and the first waiter has not requested it yet."""
    grants = [await acquire(locks, 2) for _ in range(2)]
    first = await queued(locks, interlock_url, 2)
    await until(lambda: waits_for_slot(interlock_url, 1))
    with psycopg.connect(interlock_url, autocommit=True) as slow:
        slow.execute("SELECT interlock.listen_v1(7)")
        ask = "SELECT (interlock.acquire_v1('openai', %s, 60, 'slow', wait => true, listener => 7)).status"
        slow_id = uuid4()
        slow.execute(ask, [slow_id])
        await grants[0].release()
        await first
        await until(lambda: holder(interlock_url, "openai") is None and waiters(interlock_url) == 1)
        await grants[1].release()
        # It is not given up because it does not come at once, however slow this machine is.
        execute(interlock_url, "UPDATE interlock.waiter SET offered_at = NULL")
        if moment == "it has admission":
            assert slow.execute(ask, [slow_id]).fetchall() == [("granted",)]
        assert len(held(interlock_url)) == 1
        assert await locks.lease("openai", slots=2).try_acquire() is None
        with pytest.raises(errors.LeaseTimeout):
            await locks.lease("openai", slots=2).acquire(timeout=0)
        newcomer = asyncio.create_task(acquire(locks, 2))
        await until(lambda: queue(interlock_url, "openai")[-1:] not in ([], [slow_id]))
    execute(interlock_url, "SELECT interlock.break_v1('openai', true, false, 'it', 'died')")
    await newcomer


async def test_all_slots_come_at_once_and_one_is_kept(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grants = [await acquire(others, 5) for _ in range(5)]
    task = await queued(locks, interlock_url, 5)
    await until(lambda: all(waits_for_slot(interlock_url, number) for number in range(5)))
    await asyncio.gather(*(grant.release() for grant in grants))
    kept = await task
    await until(lambda: held(interlock_url) == [kept.name])
    await until(lambda: waiters(interlock_url) == 0)
    assert not kept.lost
    assert len([await acquire(others, 5) for _ in range(4)]) == 4


@pytest.mark.parametrize("moment", ["for admission", "with admission"])
async def test_a_cancelled_wait_leaves_nothing_behind(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, moment: str
) -> None:
    grants = [await acquire(others, 2) for _ in range(2)]
    first = await queued(others, interlock_url, 2) if moment == "for admission" else None
    if first:
        await until(lambda: waits_for_slot(interlock_url))
    task = await queued(locks, interlock_url, 2)
    if not first:
        await until(lambda: waits_for_slot(interlock_url, 1))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: waiters(interlock_url) == (2 if first else 0))
    await grants[0].release()
    if first:
        await first
    else:
        assert await locks.lease("openai", slots=2).try_acquire() is not None
    await until(lambda: holder(interlock_url, "openai") is None)


async def test_a_wait_that_is_cancelled_just_when_slots_come_releases_them(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = [await acquire(others, 3) for _ in range(3)]
    stop = stop_after(monkeypatch, "acquire")
    stop.armed = False
    fresh = AsyncInterlock(interlock_url, replica="three")
    task = await queued(fresh, interlock_url, 3)
    await until(lambda: waits_for_slot(interlock_url, 2))
    stop.armed = True
    await asyncio.gather(*(grant.release() for grant in grants))
    await stop.reached()  # the database has granted at least one, and the answer has not arrived
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stop.go()
    await until(lambda: held(interlock_url) == [] and waiters(interlock_url) == 0)
    await fresh.close()


async def test_the_admission_lease_of_a_dead_caller_expires(
    others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue entries are recognised as dead; its admission lease expires."""
    monkeypatch.setattr(admission, "_LONGEST_ADMISSION", 0.5)
    grants = [await acquire(others, 2) for _ in range(2)]
    execute(  # a caller that died when it had just got the admission lease
        interlock_url, "SELECT interlock.acquire_v1('openai', gen_random_uuid(), 0.5, 'a dead caller')"
    )
    task = await queued(others, interlock_url, 2)
    await until(lambda: waits_for_slot(interlock_url))
    await grants[1].release()
    assert (await task).name == grants[1].name


async def test_losing_admission_costs_no_position(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grants = [await acquire(others, 2) for _ in range(2)]
    first = await queued(locks, interlock_url, 2)
    await until(lambda: waits_for_slot(interlock_url, 1))
    execute(interlock_url, "SELECT interlock.break_v1('openai', true, false, 'a test', 'an operator')")
    second = await queued(others, interlock_url, 2)
    await until(lambda: len(queue(interlock_url, "openai##slot/1")) == 2)
    await grants[1].release()
    assert (await first).name == grants[1].name
    assert not second.done()
    await grants[0].release()
    assert (await second).name == grants[0].name


async def test_replicas_that_disagree_hold_no_more_than_the_greatest_number(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grants = [await acquire(locks, 3) for _ in range(3)]
    assert await others.lease("openai", slots=2).try_acquire() is None
    task = await queued(others, interlock_url, 2)
    outer = next(grant for grant in grants if grant.name.endswith("/2"))
    await outer.release()
    await until(lambda: len(held(interlock_url)) == 2)
    assert not task.done(), "to the newer release there is no such slot"
    inner = next(grant for grant in grants if grant.name.endswith("/0"))
    await inner.release()
    assert (await task).name == inner.name


async def test_a_lost_answer_costs_no_slot(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await acquire(locks, 2)
    fail(monkeypatch, "acquire", errors.ConnectionLost("It broke."), after=True, times=2)
    fresh = AsyncInterlock(interlock_url, replica="three")
    await fresh.open()
    with pytest.raises(errors.ConnectionLost):
        await acquire(fresh, 2, ttl=1)
    await until(lambda: held(interlock_url) == [first.name])
    await fresh.close()


async def test_closing_during_waits_leaves_nothing_behind(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grants = [await acquire(others, 2) for _ in range(2)]
    first = await queued(locks, interlock_url, 2)
    await until(lambda: waits_for_slot(interlock_url, 1))
    second = await queued(locks, interlock_url, 2)
    await locks.close()
    for task in (first, second):
        with pytest.raises(errors.ConfigurationError, match="was closed"):
            await task
    await until(lambda: sorted(held(interlock_url)) == sorted(grant.name for grant in grants))
    assert holder(interlock_url, "openai") is None


async def test_a_try_leaves_no_connection_behind(interlock_url: str) -> None:
    async with AsyncInterlock(interlock_url, idle_after=1.0) as looking:
        assert await looking.lease("openai", slots=2).holders() == []
        assert await looking.members("workers") == []
        await until(lambda: sessions(interlock_url) == {})


async def test_a_task_may_hold_several_slots_but_does_not_wait_for_itself(locks: AsyncInterlock) -> None:
    lease = locks.lease("openai", slots=2)
    async with lease, lease:
        with pytest.raises(errors.LeaseNested, match="All slots"):
            await lease.acquire()


async def test_the_guard_of_a_slot_is_the_slots(locks: AsyncInterlock, interlock_url: str) -> None:
    grants = [await acquire(locks, 2) for _ in range(2)]
    async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
        await grants[0].guard(connection)
        await grants[1].guard(connection)
        await connection.rollback()
        execute(interlock_url, "SELECT interlock.break_v1(%s, true, false, 'a', 'test')", grants[0].name)
        await grants[1].guard(connection)
        with pytest.raises(errors.LeaseLost):
            await grants[0].guard(connection)


@pytest.mark.parametrize("count", [0, -1, 1001, 2.0, "2", True])
async def test_an_invalid_number_of_slots_is_refused(locks: AsyncInterlock, count: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match="use a whole number from 1 to 1000"):
        locks.lease("openai", slots=count)


def test_reserved_names_are_refused(sync_locks: Interlock) -> None:
    with pytest.raises(errors.ConfigurationError, match="marks Interlock's own"):
        sync_locks.lease("openai##slot/1")
    with pytest.raises(errors.ConfigurationError, match="use 191 bytes at most"):
        sync_locks.lease("x" * 192, slots=2)


def test_threads_share_slots_too(sync_locks: Interlock, interlock_url: str) -> None:
    lease = sync_locks.lease("openai", slots=3)
    inside, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with lease as grant:
                with lock:
                    inside += 1
                    most = max(most, inside)
                grant.check()
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= most <= 3
    assert sync_locks.lease("openai", slots=3).try_acquire() is not None
