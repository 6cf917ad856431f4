"""The loss of a session lock, and how the holder notices it: before another can hold the lock, where possible."""

import asyncio
from collections.abc import Callable

import pytest

from interlock import errors
from interlock.coordination.session_lock.grant import AsyncSessionGrant
from interlock.coordination.session_lock.lock import AsyncSessionLock
from support.postgres import execute
from support.proxy import cable_to
from support.session_locks import QUICK, end, holder, in_line, locks_at, sessions
from support.waiting import eventually

Locks = Callable[..., AsyncSessionLock]

UNHURRIED = 1.5 * QUICK
"""A test has time to check between the end of trust and the server's reaction, on a busy machine too."""


@pytest.fixture
def locks(database_url: str) -> Locks:
    return locks_at(database_url)


async def until(look: Callable[[], object]) -> None:
    await asyncio.to_thread(eventually, look)


async def lose(url: str, grant: AsyncSessionGrant) -> None:
    await asyncio.to_thread(end, url, grant.backend_pid)


async def test_the_body_is_cancelled_when_the_server_ends_the_session(locks: Locks, database_url: str) -> None:
    async def work() -> None:
        async with locks() as grant:
            await lose(database_url, grant)
            await asyncio.Event().wait()

    with pytest.raises(errors.SessionLockLost, match=r"'feeds' is not held any more \(.*ended") as lost:
        await work()
    assert lost.value.name == "feeds"
    assert sessions(database_url) == set()


async def test_a_loss_is_seen_by_callbacks_and_by_wait_lost(locks: Locks, database_url: str) -> None:
    reasons: list[str] = []
    grant = await locks().acquire()
    grant.on_lost(reasons.append)
    await lose(database_url, grant)
    assert "ended" in await grant.wait_lost()
    assert grant.lost
    assert len(reasons) == 1
    grant.on_lost(reasons.append)
    assert len(reasons) == 2, "at once, since it is lost"
    with pytest.raises(errors.SessionLockLost):
        grant.check()
    await grant.release()
    assert grant.lost


async def test_a_body_that_did_not_notice_the_loss_gets_the_error_at_its_end(locks: Locks, database_url: str) -> None:
    async def work() -> None:
        async with locks() as grant:
            end(database_url, grant.backend_pid)  # and the event loop has no chance to notice it

    with pytest.raises(errors.SessionLockLost):
        await work()


async def test_the_bodys_own_error_is_kept_as_the_cause(locks: Locks, database_url: str) -> None:
    async def work() -> None:
        async with locks() as grant:
            try:
                await lose(database_url, grant)
                await asyncio.Event().wait()
            finally:
                raise LookupError("on the way out")

    with pytest.raises(errors.SessionLockLost) as lost:
        await work()
    assert isinstance(lost.value.__cause__, LookupError)


async def test_a_loss_together_with_another_cancellation_is_a_cancellation(locks: Locks, database_url: str) -> None:
    task = asyncio.current_task()
    assert task is not None

    async def work() -> None:
        async with locks() as grant:
            grant.on_lost(lambda _: task.cancel())
            await lose(database_url, grant)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await work()
    assert task.uncancel() == 0


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_a_callback_that_fails_does_not_keep_the_loss_from_the_body(
    locks: Locks, database_url: str, error: type[BaseException]
) -> None:
    def fail(_: str) -> None:
        raise error

    async def work() -> None:
        grant = await locks().acquire()
        grant.on_lost(fail)
        async with grant:
            await lose(database_url, grant)
            await asyncio.Event().wait()

    with pytest.raises(errors.SessionLockLost):
        await work()


async def test_a_disconnected_holder_notices_the_loss_before_the_server_grants_the_lock_again(
    locks: Locks, database_url: str
) -> None:
    with cable_to(database_url) as (cable, url):
        grant = await locks_at(url)(ttl=UNHURRIED).acquire()
        waiting = asyncio.create_task(acquired(locks()))
        await until(lambda: in_line(database_url))
        cable.cut()
        assert "no heartbeat was answered" in await grant.wait_lost()
        assert holder(database_url) == grant.backend_pid
        await grant.release()
        async with await waiting as second:
            assert holder(database_url) == second.backend_pid


@pytest.mark.exhaustive
async def test_a_holder_whose_replies_are_lost_does_not_keep_the_lock(locks: Locks, database_url: str) -> None:
    with cable_to(database_url) as (cable, url):
        grant = await locks_at(url)(ttl=UNHURRIED).acquire()
        cable.swallow_replies()
        await grant.wait_lost()
        assert holder(database_url) == grant.backend_pid
        async with locks().acquire(timeout=20):
            pass
        await grant.release()


@pytest.mark.exhaustive
async def test_a_holder_that_blocks_its_event_loop_notices_the_loss_by_the_clock(
    locks: Locks, database_url: str
) -> None:
    grant = await locks(ttl=UNHURRIED).acquire()
    while not grant.lost:
        pass
    assert holder(database_url) == grant.backend_pid, "it knows before the server lets another in"
    with pytest.raises(errors.SessionLockLost, match="stopped for too long"):
        grant.check()
    await grant.release()
    assert grant.lost


@pytest.mark.exhaustive
async def test_a_late_answer_does_not_revive_an_expired_lock(locks: Locks, database_url: str) -> None:
    with cable_to(database_url) as (cable, url):
        grant = await locks_at(url)(ttl=QUICK).acquire()
        cable.delay = 1.4  # an answer comes 2.8 s after its heartbeat was sent
        await grant.wait_lost()
        cable.delay = 0
        await until(lambda: holder(database_url) != grant.backend_pid)
        assert grant.lost
        await grant.release()


@pytest.mark.exhaustive
async def test_a_holder_with_heartbeats_keeps_the_lock(locks: Locks, database_url: str) -> None:
    """Longer than the server would be patient with one that does not."""
    grant = await locks(ttl=5).acquire()
    ago = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND backend_start < now() - interval '6 s'"
    await until(lambda: execute(database_url, ago, grant.backend_pid))
    grant.check()
    await grant.release()


@pytest.mark.exhaustive
async def test_a_release_that_does_not_reach_the_server_returns_and_is_no_loss(locks: Locks, database_url: str) -> None:
    with cable_to(database_url) as (cable, url):
        async with locks_at(url)(ttl=QUICK) as grant:
            cable.cut()
        assert not grant.lost
        await until(lambda: holder(database_url) is None)


async def test_a_waiter_whose_database_does_not_answer_gets_an_error(locks: Locks, database_url: str) -> None:
    with cable_to(database_url) as (cable, url):
        async with locks():
            waiting = asyncio.create_task(acquired(locks_at(url)(ttl=QUICK)))
            await until(lambda: in_line(database_url))
            cable.cut()
            with pytest.raises(errors.DatabaseUnreachable):
                await waiting
            await until(lambda: not in_line(database_url))


async def acquired(lock: AsyncSessionLock) -> AsyncSessionGrant:
    return await lock.acquire()


@pytest.mark.parametrize("begun", [True, False])
async def test_a_lock_whose_heartbeat_task_has_ended_is_lost(locks: Locks, begun: bool) -> None:
    """Its event loop ends, for example, and cancels all tasks, also those that have not run yet."""
    reasons: list[str] = []

    async def work() -> None:
        async with await locks().acquire() as grant:
            grant.on_lost(reasons.append)
            if begun:
                await asyncio.sleep(0)
            grant._heartbeats.cancel()
            await asyncio.Event().wait()

    with pytest.raises(errors.SessionLockLost, match="its heartbeats have ended"):
        await work()
    assert len(reasons) == 1
    await (await locks().acquire()).release()
