"""What was let go of, when what comes after the block goes wrong: nobody is missed, and nothing stays behind."""

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


async def let_go(locks: AsyncInterlock, *names: str) -> None:
    """Of all of them at once, so that they would be taken again at once."""
    for name in names or ["feeds"]:
        async with locks.lease(name, confirm_release=False):
            pass


async def enter(lease: AsyncLease) -> None:
    async with lease:
        pass


async def try_all(locks: AsyncInterlock, *names: str) -> Sequence[Any]:
    """In one batch."""
    tries = (locks.lease(name, confirm_release=False).try_acquire() for name in names)
    return await asyncio.gather(*tries, return_exceptions=True)


@pytest.mark.parametrize("happens", [_DEAD, _BROKEN], ids=["somebody died in its queue", "a person took it"])
async def test_a_try_after_the_block_finds_it_free_although(
    locks: AsyncInterlock, interlock_url: str, happens: str
) -> None:
    async with locks.lease("feeds", confirm_release=False) as first:
        execute(interlock_url, happens)
    second = await locks.lease("feeds").try_acquire()
    assert second is not None
    assert second.token > first.token


async def test_who_does_not_wait_at_all_finds_it_free_too(locks: AsyncInterlock, interlock_url: str) -> None:
    async with locks.lease("feeds", confirm_release=False):
        execute(interlock_url, _DEAD)
    assert (await locks.lease("feeds").acquire(timeout=0)).token


def test_a_thread_that_tries_after_the_block_finds_it_free_too(interlock_url: str) -> None:
    with Interlock(interlock_url) as locks:
        with locks.lease("feeds", confirm_release=False):
            execute(interlock_url, _DEAD)
        assert locks.lease("feeds").try_acquire() is not None


async def test_closing_ends_whoever_waits_for_a_release_that_is_on_its_way(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = AsyncInterlock(interlock_url)
    stop = stop_before(monkeypatch, "release")
    await let_go(locks)
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


async def test_who_gives_up_while_the_release_is_on_its_way_asks_for_nothing(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = AsyncInterlock(interlock_url)
    stop = stop_before(monkeypatch, "release")
    await let_go(locks)
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


async def test_a_lease_that_expires_on_its_way_back_was_not_lost(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stood still between the end of the block and its release, and another had it meanwhile."""
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


async def test_of_two_tasks_that_want_it_the_first_takes_it_over_and_the_second_waits_for_that(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    lease = locks.lease("feeds", confirm_release=False)
    await let_go(locks)
    first, second = (asyncio.ensure_future(lease.acquire()) for _ in range(2))
    one = await first
    assert holder(interlock_url) == one.grant_id
    assert not second.done()
    await one.release()
    assert (await second).token > one.token


async def test_a_task_that_lets_go_may_have_it_again_and_not_twice(locks: AsyncInterlock) -> None:
    lease = locks.lease("feeds", confirm_release=False)
    async with lease:
        with pytest.raises(errors.LeaseNested):
            await lease.acquire()
    async with lease:
        with pytest.raises(errors.LeaseNested):
            await lease.acquire()


async def test_nothing_grows_with_the_number_of_blocks(locks: AsyncInterlock) -> None:
    async def work(number: int) -> None:
        for _ in range(50):
            async with locks.lease(f"feeds {number}", confirm_release=False):
                pass

    await asyncio.gather(*map(work, range(10)))
    releases = locks.engine()._releases
    await until(lambda: not releases._unconfirmed)
    assert locks.engine()._deferred.is_idle


def test_a_thread_does_not_trust_its_grant_after_the_block(interlock_url: str) -> None:
    """Also while the loop that gives it back has not come to that yet."""
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
