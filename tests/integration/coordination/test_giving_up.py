"""Whoever goes away while it asks or waits leaves nothing behind: no place in the queue, no lease that nobody has."""

import asyncio
from collections.abc import Sequence

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.engine import queue as wait_queue
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import AsyncLease
from interlock.coordination.lease.times import LeaseTiming
from interlock.stores.leases import AcquireAnswer, AcquireRequest
from interlock.stores.postgres.leases import PostgresLeases
from support.lease_engine import (
    Stop,
    count_calls,
    fail,
    holder,
    queue,
    queued,
    reach,
    stop_after,
    stop_before,
    until,
    until_answered,
)
from support.postgres import execute
from support.proxy import cable_to

UNREACHABLE = errors.DatabaseUnreachable("It did not answer in time.")


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by itself: whoever waits is told, or waits for ever."""
    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 3600.0)


def acquiring(lease: AsyncLease, timeout: float | None = None) -> "asyncio.Task[AsyncGrant]":
    async def acquire() -> AsyncGrant:
        return await lease.acquire(timeout)

    return asyncio.create_task(acquire())


async def cancel(task: "asyncio.Task[AsyncGrant]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("timeout", [0, 0.01, 0.3])
async def test_who_waited_long_enough_leaves_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, timeout: float
) -> None:
    await others.lease("feeds").acquire()
    with pytest.raises(errors.LeaseTimeout, match=f"'feeds' was not acquired within {timeout:g} s") as late:
        await locks.lease("feeds").acquire(timeout)
    assert late.value.name == "feeds"
    await until(lambda: queue(interlock_url) == [])


async def test_who_does_not_want_to_wait_never_queues(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, "acquire")
    await others.lease("feeds").acquire()
    waiter = acquiring(locks.lease("feeds"))
    await until(lambda: queue(interlock_url))  # now it has an ear: whoever is to wait queues with the first question
    await cancel(waiter)
    del calls[:]
    with pytest.raises(errors.LeaseTimeout):
        await locks.lease("feeds").acquire(0)
    assert [ask.wait for (asks,) in calls for ask in asks] == [False]


async def test_a_waiter_that_is_cancelled_leaves_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    await others.lease("feeds").acquire()
    waiter = acquiring(locks.lease("feeds"))
    await until(lambda: queue(interlock_url))
    await cancel(waiter)
    await until(lambda: queue(interlock_url) == [])


async def test_a_waiter_that_is_cancelled_before_it_has_arrived_leaves_the_queue_after_that(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_before(monkeypatch, "acquire")
    stop.armed = False
    left = count_calls(monkeypatch, "abandon")
    await others.lease("feeds").acquire()
    first = acquiring(locks.lease("feeds"))
    await until(lambda: queue(interlock_url))
    stop.armed = True
    second = acquiring(locks.lease("feeds"))
    await stop.reached()
    await cancel(second)
    await until(lambda: left)
    stop.go()
    await until(lambda: len(left) == 2 and len(queue(interlock_url)) == 1)
    await cancel(first)


@pytest.mark.usefixtures("no_looks")
async def test_a_turn_that_comes_to_somebody_who_leaves_goes_on_to_the_next(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await others.lease("feeds").acquire()
    leaver = acquiring(locks.lease("feeds"))
    await until(lambda: queue(interlock_url))
    stayer = acquiring(locks.lease("feeds"))
    await until(lambda: len(queue(interlock_url)) == 2)
    leaver.cancel()
    await grant.release()
    granted = await stayer
    assert holder(interlock_url) == granted.grant_id


async def granted_on_the_way(lease: AsyncLease, stop: Stop, timeout: float | None = None) -> "asyncio.Task[AsyncGrant]":
    asking = acquiring(lease, timeout)
    await stop.reached()
    return asking


async def test_a_grant_that_comes_after_its_caller_has_gone_is_given_back(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    asking = await granted_on_the_way(locks.lease("feeds"), stop)
    assert holder(interlock_url) is not None
    await cancel(asking)
    stop.go()
    await until(lambda: holder(interlock_url) is None)


async def test_a_grant_that_comes_after_the_time_out_is_given_back(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    asking = await granted_on_the_way(locks.lease("feeds"), stop, 0.05)
    with pytest.raises(errors.LeaseTimeout):
        await asking
    assert holder(interlock_url) is not None
    stop.go()
    await until(lambda: holder(interlock_url) is None)


async def test_a_grant_that_comes_together_with_the_cancellation_is_given_back(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is there, and the task has not run yet: asyncio forgets the answer."""
    stop = stop_after(monkeypatch, "acquire")
    asking = await granted_on_the_way(locks.lease("feeds"), stop)
    stop.go()
    await until_answered(asking)
    await cancel(asking)
    await until(lambda: holder(interlock_url) is None)


@pytest.mark.usefixtures("no_looks", "only_called")
@pytest.mark.parametrize("when", ["before the answer", "with the answer"])
async def test_what_is_given_back_goes_to_the_next_who_waits_in_the_same_process(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    stop.armed = False
    grant = await others.lease("feeds").acquire()
    leaver = acquiring(locks.lease("feeds"))
    await until(lambda: queue(interlock_url))
    stayer = acquiring(locks.lease("feeds"))
    await until(lambda: len(queue(interlock_url)) == 2)
    stop.armed = True
    await grant.release()
    await stop.reached()
    stop.armed = False
    if when == "with the answer":
        stop.go()
        await until_answered(leaver)
    await cancel(leaver)
    stop.go()
    granted = await stayer
    assert holder(interlock_url) == granted.grant_id


async def test_who_leaves_before_anything_is_sent_never_asked(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_before(monkeypatch, "acquire")
    first = acquiring(locks.lease("other"))
    await stop.reached()
    second = acquiring(locks.lease("feeds"))
    await asyncio.sleep(0)
    await cancel(second)
    stop.go()
    await first
    assert [ask.name for asks in stop.calls for ask in asks[0]] == ["other"]
    assert holder(interlock_url) is None


def is_given_back(url: str) -> bool:
    """It was granted, and did not just expire."""
    return execute(url, "SELECT token > 0 AND grant_id IS NULL FROM interlock.lease WHERE name = 'feeds'") == [(True,)]


async def test_a_grant_whose_answer_is_lost_and_whose_caller_has_gone_is_given_back(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "acquire", UNREACHABLE, after=True)
    stop = stop_before(monkeypatch, "acquire")
    asking = await granted_on_the_way(locks.lease("feeds", ttl=8), stop)
    await cancel(asking)
    stop.go()
    await until(lambda: is_given_back(interlock_url))


async def test_a_try_whose_answers_are_lost_is_given_back_later(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "acquire", UNREACHABLE, after=True)
    with pytest.raises(errors.DatabaseUnreachable):
        await locks.lease("feeds", ttl=8).try_acquire()
    await until(lambda: is_given_back(interlock_url))


async def test_a_try_that_was_lost_and_then_found_the_row_locked_is_given_back_later(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is our own first request that has the row locked: it goes on in the server, and is granted."""
    ours = "SELECT * FROM interlock.acquire_v1('feeds', %s, 60, 'one')"
    is_lost = False
    statuses: list[str] = []
    with psycopg.connect(interlock_url) as server:

        async def acquire(store: PostgresLeases, asks: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
            nonlocal is_lost
            if is_lost:
                is_lost = False
                server.execute(ours, [asks[0].grant_id])
                raise UNREACHABLE
            answers = await original(store, asks)
            statuses.extend(answer.status for answer in answers)
            return answers

        original = PostgresLeases.acquire
        monkeypatch.setattr(PostgresLeases, "acquire", acquire)
        await (await locks.lease("feeds").acquire()).release()
        is_lost = True
        assert await locks.lease("feeds", ttl=8).try_acquire() is None
        await until(lambda: statuses == ["granted", "locked", "locked"])
        server.commit()
    assert holder(interlock_url) is not None
    await until(lambda: is_given_back(interlock_url))


@pytest.mark.exhaustive
async def test_who_will_not_wait_does_not_wait_for_a_database_that_is_away(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        locks = AsyncInterlock(url, request_timeout=0.2)
        await reach(locks)
        cable.cut()
        with pytest.raises(errors.StoreError):
            await locks.lease("feeds").acquire(0)
        with pytest.raises(errors.StoreError):
            await locks.lease("feeds").try_acquire()
        with pytest.raises(errors.LeaseTimeout, match="within 5 s: No database answers") as late:
            await locks.lease("feeds").acquire(5)
        assert isinstance(late.value.__cause__, errors.DatabaseUnreachable)
        cable.restore()
        await locks.close()


@pytest.mark.parametrize("answered", [False, True])
async def test_who_gives_up_before_it_came_to_wait_for_the_answer_does_not_keep_what_it_asked_for(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    async def given_up() -> None:
        if answered:
            await until(lambda: request.response and request.response.done())
        raise asyncio.CancelledError

    await locks.open()
    engine = locks.engine()
    await engine._queue.subscribe()
    request = engine.begin_acquire("feeds", LeaseTiming.of(30), None, object(), None, AsyncGrant)
    monkeypatch.setattr(engine._acquisitions, "_subscribe", given_up)
    with pytest.raises(asyncio.CancelledError):
        await engine.wait(request)
    await until(
        lambda: (
            holder(interlock_url) is None and queue(interlock_url) == [] and not engine._requests._batcher._is_running
        )
    )
    assert await locks.lease("feeds").try_acquire() is not None


async def test_a_request_that_was_late_and_whose_answer_was_lost_keeps_no_place_in_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given up, and left the queue, before the server had put it in."""
    acquire, armed, late, go = PostgresLeases.acquire, asyncio.Event(), asyncio.Event(), asyncio.Event()
    in_queue, lose = asyncio.Event(), asyncio.Event()

    async def answer_lost(store: PostgresLeases, asks: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        if late.is_set() or not armed.is_set():
            return await acquire(store, asks)
        late.set()
        await go.wait()
        await acquire(store, asks)
        in_queue.set()
        await lose.wait()
        raise errors.ConnectionLost("It was lost.")

    monkeypatch.setattr(PostgresLeases, "acquire", answer_lost)  # lanes take hold of it when they are made
    held = await others.lease("feeds", ttl=60).acquire()
    patient = await queued(locks, interlock_url)  # so that we listen: our places in queues are alive
    [waiter] = queue(interlock_url)
    armed.set()
    abandoned = stop_after(monkeypatch, "abandon")
    given_up = acquiring(locks.lease("feeds", ttl=2))
    await late.wait()
    await cancel(given_up)
    await abandoned.reached()
    abandoned.armed = False
    abandoned.go()
    go.set()
    await in_queue.wait()
    assert len(queue(interlock_url)) == 2
    lose.set()
    await until(lambda: queue(interlock_url) == [waiter])
    await held.release()
    await patient
