"""Whoever goes away while it asks or waits leaves nothing behind: no place in the queue, no lease that nobody knows of."""

import asyncio

import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination import waiting
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.lease import AsyncLease
from support.holding import Stop, fail, holder, queue, stop_after, stop_before, until
from support.proxy import cable_to

UNREACHABLE = errors.DatabaseUnreachable("It did not answer in time.")


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by itself: whoever waits is told, or waits for ever."""
    monkeypatch.setattr(waiting, "_LOOK_AGAIN", 3600.0)


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
    with pytest.raises(errors.LeaseTimeout, match=f"'feeds' was not to be had within {timeout:g} s") as late:
        await locks.lease("feeds").acquire(timeout)
    assert late.value.name == "feeds"
    await until(lambda: queue(interlock_url) == [])


async def test_who_does_not_want_to_wait_never_queues(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await others.lease("feeds").acquire()
    with pytest.raises(errors.LeaseTimeout):
        await locks.lease("feeds").acquire(0.01)  # now it has an ear
    stop = stop_after(monkeypatch, "abandon")
    with pytest.raises(errors.LeaseTimeout):
        await locks.lease("feeds").acquire(0)
    stop.go()
    assert stop.calls == []


async def test_a_waiter_that_is_cancelled_leaves_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    await others.lease("feeds").acquire()
    waiter = acquiring(locks.lease("feeds"))
    await until(lambda: queue(interlock_url))
    await cancel(waiter)
    await until(lambda: queue(interlock_url) == [])


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
    assert holder(interlock_url) == (await stayer).grant_id


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
    engine = locks.engine()
    answered = next(iter(engine._asking._batch)) if hasattr(engine._asking, "_batch") else None
    del answered
    stop.go()
    await until_answered(asking)
    await cancel(asking)
    await until(lambda: holder(interlock_url) is None)


async def until_answered(asking: "asyncio.Task[AsyncGrant]") -> None:
    """Until what the task waits for is done; the task itself has not run yet."""
    while (waits_for := asking._fut_waiter) is None or not waits_for.done():  # type: ignore[attr-defined]
        assert not asking.done()
        await asyncio.sleep(0)


@pytest.mark.usefixtures("no_looks")
async def test_a_lease_that_is_given_back_goes_to_who_waits_for_it_here(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    leaver = await granted_on_the_way(locks.lease("feeds"), stop)
    stayer = acquiring(locks.lease("feeds"))
    await asyncio.sleep(0)
    leaver.cancel()
    release = stop_before(monkeypatch, "release")
    stop.go()
    del release
    assert holder(interlock_url) == (await stayer).grant_id


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


async def test_a_grant_whose_answer_is_lost_and_whose_caller_has_gone_is_given_back(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "acquire", UNREACHABLE, after=True)
    stop = stop_after(monkeypatch, "acquire")
    stop.go()
    monkeypatch.undo()
    fail(monkeypatch, "acquire", UNREACHABLE, after=True)
    original_stop = stop_before(monkeypatch, "acquire")
    asking = acquiring(locks.lease("feeds", ttl=4))
    await original_stop.reached()
    await cancel(asking)
    original_stop.go()
    await until(lambda: holder(interlock_url) is not None)
    await until(lambda: holder(interlock_url) is None, within=3)


async def test_a_try_whose_answers_are_lost_is_given_back_later(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with locks.lease("other"):
        pass
    fail(monkeypatch, "acquire", UNREACHABLE, after=True, times=2)
    locks = AsyncInterlock(interlock_url)
    with pytest.raises(errors.DatabaseUnreachable):
        await locks.lease("feeds", ttl=4).try_acquire()
    assert holder(interlock_url) is not None
    await until(lambda: holder(interlock_url) is None, within=3)
    await locks.close()


async def test_who_will_not_wait_does_not_wait_for_a_database_that_is_away(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        locks = AsyncInterlock(url, request_timeout=0.2)
        async with locks.lease("feeds"):
            pass
        cable.cut()
        with pytest.raises(errors.StoreError):
            await locks.lease("feeds").acquire(0)
        with pytest.raises(errors.StoreError):
            await locks.lease("feeds").try_acquire()
        with pytest.raises(errors.LeaseTimeout):
            await locks.lease("feeds").acquire(0.1)
        cable.restore()
        await locks.close()
