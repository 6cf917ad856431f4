"""Session locks: one holder, a session for each acquisition, and nothing left behind."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.session_lock.grant import AsyncSessionGrant
from interlock.coordination.session_lock.lock import AsyncSessionLock
from interlock.coordination.session_lock.queue import QueuedSession, SessionTiming
from interlock.stores.postgres import AdvisoryKey
from support.postgres import execute
from support.replication import primary_and_standby
from support.session_locks import (
    QUICK,
    connecting_to,
    database_of,
    holder,
    in_line,
    locks_at,
    sessions,
)
from support.waiting import eventually

Locks = Callable[..., AsyncSessionLock]


@pytest.fixture
def locks(database_url: str) -> Locks:
    return locks_at(database_url)


async def until(look: Callable[[], object]) -> None:
    await asyncio.to_thread(eventually, look)


async def test_only_one_holder_at_a_time(locks: Locks, database_url: str) -> None:
    async with locks() as grant:
        assert grant.name == "feeds"
        assert holder(database_url) == grant.backend_pid
        assert not grant.lost
        grant.check()
        assert await locks().try_acquire() is None
        with pytest.raises(errors.SessionLockTimeout, match="'feeds' is still taken") as timeout:
            await asyncio.create_task(wait_for(locks(), timeout=0))
        assert timeout.value.name == "feeds"
    assert sessions(database_url) == set()


async def test_session_locks_of_a_root_object_need_no_tables(database_url: str) -> None:
    locks = AsyncInterlock(database_url)
    async with locks.session_lock("feeds") as grant:
        assert holder(database_url) == grant.backend_pid
        with pytest.raises(errors.SessionLockNested):
            await locks.session_lock("feeds").acquire()
        assert await AsyncInterlock(database_url).session_lock("feeds").try_acquire() is None
        async with AsyncInterlock(database_url, schema="other").session_lock("feeds").acquire(timeout=0):
            pass


async def wait_for(lock: AsyncSessionLock, **options: Any) -> AsyncSessionGrant:
    return await lock.acquire(**options)


async def test_a_waiter_gets_the_lock_when_it_is_released(locks: Locks, database_url: str) -> None:
    first = await locks().acquire()
    waiting = asyncio.create_task(wait_for(locks()))
    await until(lambda: in_line(database_url))
    await first.release()
    second = await waiting
    assert holder(database_url) == second.backend_pid != first.backend_pid
    assert in_line(database_url) == []
    await second.release()


async def test_an_acquisition_may_be_entered_and_awaited(locks: Locks, database_url: str) -> None:
    async with locks().acquire(timeout=timedelta(seconds=5)) as entered:
        assert holder(database_url) == entered.backend_pid
    awaited = await locks().acquire(timeout=5)
    async with awaited as same:
        assert same is awaited
    assert holder(database_url) is None
    if tried := await locks().try_acquire():
        async with tried:
            assert holder(database_url) == tried.backend_pid


async def test_other_names_and_other_schemas_are_other_locks(locks: Locks) -> None:
    async with locks(), locks("Feeds"), locks("feeds", schema="mine") as third:
        assert await locks("feeds", schema="mine").try_acquire() is None
        third.check()


async def test_the_key_of_a_name_is_64_bits_of_a_hash_and_stays_the_same(locks: Locks, database_url: str) -> None:
    assert AdvisoryKey.of("interlock session lock", "interlock", "feeds") == AdvisoryKey(-1760714879, 1514287328)
    async with locks():
        assert holder(database_url)


async def test_two_acquisitions_of_one_process_never_share_a_session(locks: Locks, database_url: str) -> None:
    async with locks("a") as first, locks("b") as second:
        waiting = asyncio.create_task(wait_for(locks("a")))
        await until(lambda: in_line(database_url, "a"))
        assert len({first.backend_pid, second.backend_pid, *in_line(database_url, "a")}) == 3
        waiting.cancel()


async def test_one_lock_object_serves_many_tasks(locks: Locks) -> None:
    lock = locks()
    inside = most = rounds = 0

    async def work() -> None:
        nonlocal inside, most, rounds
        async with lock:
            inside, rounds = inside + 1, rounds + 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(12):
            tasks.create_task(work())
    assert (most, rounds) == (1, 12)


def test_one_lock_object_serves_several_event_loops(locks: Locks, database_url: str) -> None:
    lock = locks()

    async def work() -> int:
        async with lock as grant:
            return grant.backend_pid

    assert len({asyncio.run(work()), asyncio.run(work())}) == 2
    assert sessions(database_url) == set()


async def test_a_second_release_does_nothing(locks: Locks, database_url: str) -> None:
    grant = await locks().acquire()
    assert await grant.release()
    async with locks() as other:
        assert await grant.release()
        assert holder(database_url) == other.backend_pid
    assert not grant.lost
    with pytest.raises(errors.SessionLockLost, match="it was released"):
        grant.check()


async def test_a_task_that_would_wait_for_itself_gets_an_error(locks: Locks) -> None:
    async with locks():
        with pytest.raises(errors.SessionLockNested, match="would wait for itself"):
            await locks().acquire(timeout=5)
        assert await locks().try_acquire() is None
        async with locks("another"):
            pass
    async with locks():
        pass


async def test_a_task_may_acquire_a_lost_lock_again(locks: Locks, database_url: str) -> None:
    grant = await locks().acquire()
    execute(database_url, "SELECT pg_terminate_backend(%s)", grant.backend_pid)
    await grant.wait_lost()
    async with locks():
        assert not await grant.release()
        with pytest.raises(errors.SessionLockNested):
            await locks().acquire()


async def test_a_block_may_be_left_by_another_task(locks: Locks, database_url: str) -> None:
    lock = locks()

    async def generate() -> AsyncIterator[int]:
        async with lock as grant:
            yield grant.backend_pid

    generator = generate()
    assert await asyncio.create_task(anext(generator)) == holder(database_url)  # type: ignore[arg-type] # it is one
    with pytest.raises(StopAsyncIteration):
        await anext(generator)
    assert sessions(database_url) == set()


@pytest.mark.parametrize("timeout", [0.05, 0.6])
async def test_a_timeout_leaves_neither_session_nor_place_behind(
    locks: Locks, database_url: str, timeout: float
) -> None:
    grant = await locks().acquire()
    with pytest.raises(errors.SessionLockTimeout):
        await asyncio.create_task(wait_for(locks(), timeout=timeout))
    assert sessions(database_url) == {grant.backend_pid}
    await grant.release()


async def test_a_cancelled_waiter_leaves_neither_session_nor_place_behind(locks: Locks, database_url: str) -> None:
    async with locks() as grant:
        waiting = asyncio.create_task(wait_for(locks()))
        await until(lambda: in_line(database_url))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert sessions(database_url) == {grant.backend_pid}


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("rounds", [5, 25])
async def test_a_waiter_cancelled_just_when_it_gets_the_lock_does_not_keep_it(
    locks: Locks, database_url: str, rounds: int
) -> None:
    lock = locks()
    for _ in range(rounds):
        grant = await lock.acquire()
        waiting = asyncio.create_task(wait_for(lock))
        await until(lambda: in_line(database_url))
        releasing = asyncio.create_task(grant.release())
        await asyncio.sleep(random.uniform(0, 0.006))  # before, at, and after the moment
        waiting.cancel()
        await asyncio.wait([releasing, waiting])
        if not waiting.cancelled():
            await waiting.result().release()
        assert sessions(database_url) == set()


async def test_an_event_loop_that_ends_releases_its_locks(locks: Locks, database_url: str) -> None:
    async def hold() -> int:
        grant = await locks(ttl=3600).acquire()
        return grant.backend_pid

    assert await asyncio.to_thread(asyncio.run, hold())
    await until(lambda: holder(database_url) is None)


@pytest.mark.parametrize("name", ["", "a\0b", "line\nbreak", "x" * 300])
def test_an_invalid_name_is_refused(locks: Locks, name: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="name"):
        locks(name)


@pytest.mark.parametrize("ttl", [0, -1, 1.9, 3601, float("nan")])
def test_an_impossible_ttl_is_refused(locks: Locks, ttl: float) -> None:
    with pytest.raises(errors.ConfigurationError, match="ttl"):
        locks(ttl=ttl)


async def test_an_impossible_timeout_is_refused(locks: Locks) -> None:
    with pytest.raises(errors.ConfigurationError, match="timeout"):
        await locks().acquire(timeout=-1)


async def test_session_locks_are_refused_on_a_standby() -> None:
    with primary_and_standby(synchronous=False) as pair:
        with pytest.raises(errors.NotPrimary):
            await locks_at(pair.standby_url)().try_acquire()
        async with locks_at(pair.primary_url)():
            pass


async def test_timeouts_set_for_the_role_do_not_apply(locks: Locks, database_url: str) -> None:
    for setting in ("idle_session_timeout", "statement_timeout", "lock_timeout"):
        execute(database_url, f"ALTER DATABASE {database_of(database_url)} SET {setting} = '5s'")
    session = await QueuedSession.open(connecting_to(database_url), "interlock", "feeds", SessionTiming(12))
    limits = {"idle_session_timeout": "12s", "statement_timeout": "0", "lock_timeout": "400ms"}
    for setting, limit in limits.items():
        assert await session.session.fetchval("SELECT current_setting($1)", setting) == limit
    await session.close()


@pytest.mark.parametrize(("deadlock_timeout", "step"), [("300ms", "150ms"), ("10ms", "50ms"), ("5s", "400ms")])
async def test_a_waiter_stays_below_the_servers_deadlock_check(
    database_url: str, deadlock_timeout: str, step: str
) -> None:
    execute(database_url, f"ALTER DATABASE {database_of(database_url)} SET deadlock_timeout = '{deadlock_timeout}'")
    session = await QueuedSession.open(connecting_to(database_url), "interlock", "feeds", SessionTiming(QUICK))
    assert await session.session.fetchval("SELECT current_setting('lock_timeout')") == step
    await session.close()
