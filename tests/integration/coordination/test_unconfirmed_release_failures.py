"""Failures after a block with an unconfirmed release: no waiter is missed, and no lease stays held."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from interlock import AsyncInterlock, AsyncLease, Interlock, errors
from interlock.coordination.events import Lost
from support.lease_engine import (
    count_calls,
    holder,
    statements,
    stop_before,
    take_away,
    until,
)
from support.postgres import execute

_DEAD = "INSERT INTO interlock.waiter VALUES (gen_random_uuid(), 'feeds', '-infinity', NULL, '-infinity')"
_BROKEN = "SELECT interlock.break_v1('feeds', true, false, 'a test', 'somebody')"


@pytest.fixture
async def locks(interlock_url: str) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(interlock_url) as locks:
        yield locks


async def use_leases(locks: AsyncInterlock, *names: str) -> None:
    """Use all leases in one step, so that their releases are under way together."""
    for name in names or ["feeds"]:
        async with locks.lease(name, confirm_release=False):
            pass


async def enter(lease: AsyncLease) -> None:
    async with lease:
        pass


async def try_all(locks: AsyncInterlock, *names: str) -> Sequence[Any]:
    """Try all leases in one batch."""
    tries = (locks.lease(name, confirm_release=False).try_acquire() for name in names)
    return await asyncio.gather(*tries, return_exceptions=True)


@pytest.mark.parametrize("happens", [_DEAD, _BROKEN], ids=["a waiter died in its queue", "an operator broke it"])
async def test_a_try_after_the_block_finds_the_lease_free_although(
    locks: AsyncInterlock, interlock_url: str, happens: str
) -> None:
    async with locks.lease("feeds", confirm_release=False) as first:
        execute(interlock_url, happens)
    second = await locks.lease("feeds").try_acquire()
    assert second is not None
    assert second.token > first.token


async def test_a_timeout_of_zero_after_the_block_finds_the_lease_free(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    async with locks.lease("feeds", confirm_release=False):
        execute(interlock_url, _DEAD)
    assert (await locks.lease("feeds").acquire(timeout=0)).token


def test_a_threads_try_after_the_block_finds_the_lease_free(interlock_url: str) -> None:
    with Interlock(interlock_url) as locks:
        with locks.lease("feeds", confirm_release=False):
            execute(interlock_url, _DEAD)
        assert locks.lease("feeds").try_acquire() is not None


async def test_close_ends_requests_that_wait_for_a_release(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = AsyncInterlock(interlock_url)
    stop = stop_before(monkeypatch, "release")
    await use_leases(locks)
    await stop.reached()
    asking = asyncio.ensure_future(locks.lease("feeds").acquire())
    closing = asyncio.ensure_future(locks.close())
    await asyncio.sleep(0)
    stop.go()
    async with asyncio.timeout(30):
        await closing
        await asyncio.wait([asking])
    assert isinstance(asking.exception(), errors.ConfigurationError)
    assert holder(interlock_url) is None


async def test_a_request_abandoned_during_the_release_is_never_sent(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = AsyncInterlock(interlock_url)
    stop = stop_before(monkeypatch, "release")
    await use_leases(locks)
    await stop.reached()
    asked = statements(monkeypatch)
    asking = asyncio.ensure_future(locks.lease("feeds").acquire())
    await asyncio.sleep(0)
    asking.cancel()
    stop.go()
    await until(lambda: holder(interlock_url) is None)
    await locks.close()
    assert asking.cancelled()
    assert not [query for query in asked if query.startswith("acquire")]


async def test_a_lease_that_expires_before_its_release_is_sent_was_not_lost(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stopped between the end of the block and its release, and another held the lease meanwhile."""
    told: list[object] = []
    locks = AsyncInterlock(interlock_url, on_event=told.append)
    release = count_calls(monkeypatch, "release")
    async with locks.lease("feeds", confirm_release=False) as grant:
        grant.on_lost(told.append)
    take_away(interlock_url)
    grant.trusted_until = 0.0
    await until(lambda: release)
    await locks.close()
    assert [event for event in told if event == "refused" or isinstance(event, Lost)] == []
    assert not grant.lost
    with pytest.raises(errors.LeaseLost, match="it was released"):
        grant.check()


async def test_of_two_tasks_the_first_gets_the_lease_and_the_second_waits(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    lease = locks.lease("feeds", confirm_release=False)
    await use_leases(locks)
    first, second = (asyncio.ensure_future(lease.acquire()) for _ in range(2))
    one = await first
    assert holder(interlock_url) == one.grant_id
    assert not second.done()
    await one.release()
    assert (await second).token > one.token


async def test_a_task_may_acquire_again_after_the_block_and_not_twice(locks: AsyncInterlock) -> None:
    lease = locks.lease("feeds", confirm_release=False)
    async with lease:
        with pytest.raises(errors.LeaseNested):
            await lease.acquire()
    async with lease:
        with pytest.raises(errors.LeaseNested):
            await lease.acquire()


async def test_the_state_does_not_grow_with_the_number_of_blocks(locks: AsyncInterlock) -> None:
    async def work(number: int) -> None:
        for _ in range(50):
            async with locks.lease(f"feeds {number}", confirm_release=False):
                pass

    await asyncio.gather(*map(work, range(10)))
    releases = locks.engine()._releases
    await until(lambda: not releases._unconfirmed)
    assert locks.engine()._deferred.is_idle


def test_a_thread_does_not_trust_its_grant_after_the_block(interlock_url: str) -> None:
    """Also before the loop has handled the release."""
    may_go_on = threading.Event()
    with Interlock(interlock_url) as locks:
        with locks.lease("feeds", confirm_release=False) as grant:
            locks.loop_thread().loop.call_soon_threadsafe(may_go_on.wait)
        try:
            assert grant.remaining == 0
            assert not grant.lost
            with pytest.raises(errors.LeaseLost, match="it was released"):
                grant.check()
        finally:
            may_go_on.set()
