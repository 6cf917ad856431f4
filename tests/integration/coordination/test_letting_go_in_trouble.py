"""What was let go of, when what comes after the block goes wrong: nobody is missed, and nothing stays behind."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from interlock import AsyncInterlock, AsyncLease, Interlock, errors
from interlock.coordination.events import Lost
from interlock.stores.postgres.leases import PostgresLeases
from support.holding import (
    Stop,
    count_calls,
    fail,
    holder,
    queue,
    statements,
    stop_after,
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


async def test_after_a_statement_that_failed_a_try_finds_what_was_let_go_of_free(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the whole batch, which is then asked for one by one."""
    await let_go(locks, "feeds", "bills")
    fail(monkeypatch, "again", errors.StatementFailed("It failed.", sqlstate="XX000"))
    assert None not in await try_all(locks, "feeds", "bills")


async def test_what_was_granted_anew_is_not_lost_by_the_failure_of_its_neighbours(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ceases to take writes between the two statements of a batch."""
    await let_go(locks)
    fail(monkeypatch, "acquire", errors.NotPrimary("It takes no writes."), times=3)
    granted, failed = await try_all(locks, "feeds", "bills")
    assert isinstance(failed, errors.NotPrimary)
    assert holder(interlock_url) == granted.grant_id


async def test_a_neighbour_that_is_refused_costs_nobody_what_was_granted_anew(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await let_go(locks)
    fail(monkeypatch, "acquire", errors.StatementFailed("It failed.", sqlstate="XX000"))
    granted, other = await try_all(locks, "feeds", "bills")
    assert holder(interlock_url) == granted.grant_id
    assert holder(interlock_url, "bills") == other.grant_id


async def close_while_asked_again(locks: AsyncInterlock, stop: Stop) -> None:
    asking = asyncio.ensure_future(locks.lease("feeds").acquire())
    await stop.reached()
    closing = asyncio.ensure_future(locks.close())
    await asyncio.wait([asking])
    stop.go()
    await closing
    assert isinstance(asking.exception(), errors.ConfigurationError)


async def test_closing_gives_it_back_when_taking_it_again_fails_meanwhile(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = AsyncInterlock(interlock_url)
    fail(monkeypatch, "again", errors.StatementFailed("It failed.", sqlstate="XX000"))
    stop = stop_before(monkeypatch, "again")
    await let_go(locks)
    await close_while_asked_again(locks, stop)
    assert holder(interlock_url) is None


async def test_closing_gives_it_back_when_it_is_taken_again_meanwhile(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = AsyncInterlock(interlock_url)
    stop = stop_after(monkeypatch, "again")
    await let_go(locks)
    await close_while_asked_again(locks, stop)
    assert holder(interlock_url) is None


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
    asked = count_calls(monkeypatch, "acquire")
    asking = asyncio.ensure_future(locks.lease("feeds").acquire())
    await asyncio.sleep(0)
    asking.cancel()
    stop.go()
    await until(lambda: holder(interlock_url) is None)
    await locks.close()
    assert asking.cancelled()
    assert asked == []


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


async def test_names_that_others_once_waited_for_are_taken_again_at_once_when_nobody_does_any_more(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they are given back in batches."""
    names = ["feeds", "bills"]
    leases = [locks.lease(name, confirm_release=False) for name in names]
    grants = [await lease.acquire() for lease in leases]
    waiting = [asyncio.ensure_future(lease.acquire()) for lease in leases]
    for name in names:
        await until(lambda name=name: queue(interlock_url, name))  # type: ignore[misc]
    await asyncio.gather(*(grant.release() for grant in grants))
    await asyncio.gather(*(grant.release() for grant in await asyncio.gather(*waiting)))
    asked = statements(monkeypatch)
    for _ in range(2):
        await asyncio.gather(*(enter(lease) for lease in leases))
    assert "again_many" in asked


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
    returns = locks.engine()._returns
    await until(lambda: not returns._unsent and not returns._under_way)
    assert returns._timer is None
    assert locks.engine()._errands.are_done


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


async def test_a_store_without_that_step_is_told_at_once(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And whoever asks waits until that has been answered."""
    monkeypatch.delattr(PostgresLeases, "again")
    locks = AsyncInterlock(interlock_url)
    stop = stop_before(monkeypatch, "release")
    lease = locks.lease("feeds", confirm_release=False)
    async with lease as first:
        pass
    await stop.reached()
    trying = asyncio.ensure_future(lease.try_acquire())
    await asyncio.sleep(0)
    stop.go()
    second = await trying
    assert second is not None
    assert second.token > first.token
    await locks.close()
