"""A caller that stops during a request or a wait leaves nothing behind: no place in the queue and no held lease."""

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
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiters do not poll: they are notified, or wait without end."""
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
async def test_a_waiter_leaves_the_queue_after_its_timeout(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, timeout: float
) -> None:
    await others.lease("feeds").acquire()
    with pytest.raises(errors.LeaseTimeout, match=f"'feeds' was not acquired within {timeout:g} s") as late:
        await locks.lease("feeds").acquire(timeout)
    assert late.value.name == "feeds"
    await until(lambda: queue(interlock_url) == [])


async def test_a_try_never_enters_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, "acquire")
    await others.lease("feeds").acquire()
    waiter = acquiring(locks.lease("feeds"))
    await until(lambda: queue(interlock_url))  # subscribed now: a request that may wait enters the queue at once
    await cancel(waiter)
    del calls[:]
    with pytest.raises(errors.LeaseTimeout):
        await locks.lease("feeds").acquire(0)
    assert [ask.wait for (asks,) in calls for ask in asks] == [False]


async def test_a_cancelled_waiter_leaves_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    await others.lease("feeds").acquire()
    waiter = acquiring(locks.lease("feeds"))
    await until(lambda: queue(interlock_url))
    await cancel(waiter)
    await until(lambda: queue(interlock_url) == [])


async def test_a_waiter_cancelled_before_its_request_arrived_leaves_the_queue_afterwards(
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


@pytest.mark.usefixtures("no_polls")
async def test_an_offer_to_a_leaving_waiter_goes_on_to_the_next(
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


async def test_a_grant_that_comes_after_the_cancellation_is_released(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    asking = await granted_on_the_way(locks.lease("feeds"), stop)
    assert holder(interlock_url) is not None
    await cancel(asking)
    stop.go()
    await until(lambda: holder(interlock_url) is None)


async def test_a_grant_that_comes_after_the_timeout_is_released(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    asking = await granted_on_the_way(locks.lease("feeds"), stop, 0.05)
    with pytest.raises(errors.LeaseTimeout):
        await asking
    assert holder(interlock_url) is not None
    stop.go()
    await until(lambda: holder(interlock_url) is None)


async def test_a_grant_that_comes_together_with_the_cancellation_is_released(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is there, and the task has not run yet: asyncio drops the answer."""
    stop = stop_after(monkeypatch, "acquire")
    asking = await granted_on_the_way(locks.lease("feeds"), stop)
    stop.go()
    await until_answered(asking)
    await cancel(asking)
    await until(lambda: holder(interlock_url) is None)


@pytest.mark.usefixtures("no_polls", "only_called")
@pytest.mark.parametrize("when", ["before the answer", "with the answer"])
async def test_a_released_grant_goes_to_the_next_waiter_of_the_same_process(
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


async def test_a_request_cancelled_before_it_is_sent_is_never_sent(
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


def is_released(url: str) -> bool:
    """True if it was granted and released, and did not just expire."""
    return execute(url, "SELECT token > 0 AND grant_id IS NULL FROM interlock.lease WHERE name = 'feeds'") == [(True,)]


async def test_a_grant_whose_answer_is_lost_after_the_cancellation_is_released(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "acquire", UNREACHABLE, after=True)
    stop = stop_before(monkeypatch, "acquire")
    asking = await granted_on_the_way(locks.lease("feeds", ttl=8), stop)
    await cancel(asking)
    stop.go()
    await until(lambda: is_released(interlock_url))


async def test_a_try_whose_answers_are_lost_is_released_later(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "acquire", UNREACHABLE, after=True)
    with pytest.raises(errors.DatabaseUnreachable):
        await locks.lease("feeds", ttl=8).try_acquire()
    await until(lambda: is_released(interlock_url))


async def test_a_try_whose_answer_was_lost_and_whose_retry_met_a_locked_row_is_released_later(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request of this process has the row locked: it goes on in the server, and is granted."""
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
    await until(lambda: is_released(interlock_url))


@pytest.mark.exhaustive
async def test_a_try_does_not_wait_for_an_unreachable_database(interlock_url: str) -> None:
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
async def test_a_caller_cancelled_before_it_waits_for_the_response_keeps_no_lease(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    async def cancelled() -> None:
        if answered:
            await until(lambda: request.response and request.response.done())
        raise asyncio.CancelledError

    await locks.open()
    engine = locks.engine()
    await engine._queue.subscribe()
    request = engine.begin_acquire("feeds", LeaseTiming.of(30), None, object(), None, AsyncGrant)
    monkeypatch.setattr(engine._acquisitions, "_subscribe", cancelled)
    with pytest.raises(asyncio.CancelledError):
        await engine.wait(request)
    await until(
        lambda: (
            holder(interlock_url) is None and queue(interlock_url) == [] and not engine._requests._batcher._is_running
        )
    )
    assert await locks.lease("feeds").try_acquire() is not None


async def test_a_late_request_whose_answer_was_lost_keeps_no_place_in_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was abandoned, and left the queue, before the server had put it in."""
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

    monkeypatch.setattr(PostgresLeases, "acquire", answer_lost)  # batchers take the method when they are made
    held = await others.lease("feeds", ttl=60).acquire()
    patient = await queued(
        locks, interlock_url
    )  # so that this process is subscribed: its places in queues count as alive
    [waiter] = queue(interlock_url)
    armed.set()
    abandoned = stop_after(monkeypatch, "abandon")
    cancelled = acquiring(locks.lease("feeds", ttl=2))
    await late.wait()
    await cancel(cancelled)
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
