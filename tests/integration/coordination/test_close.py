"""Closing a root object: grants are released, holders and waiters are notified, and no connection is left."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from interlock import AsyncInterlock, Interlock, errors
from interlock.bridge import LoopThread
from interlock.coordination.lease.grant import AsyncGrant
from interlock.stores.postgres import Session
from interlock.stores.postgres.leases import PostgresLeases
from support.lease_engine import holder, queue, reach, sessions, stop_after, until, until_answered
from support.postgres import execute
from support.protocol import rewrite
from support.proxy import cable_to
from support.waiting import eventually

STUCK = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"


async def test_grants_are_released_and_their_holders_are_notified(
    locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    told: list[str] = []
    grant = await locks.lease("feeds").acquire()
    grant.on_lost(told.append)
    await locks.close()
    assert (told, grant.lost) == (["closed"], True)
    with pytest.raises(errors.LeaseLost, match="Interlock was closed while the lease was held"):
        grant.check()
    assert await others.lease("feeds").try_acquire() is not None


async def test_close_cancels_the_body_of_a_block(locks: AsyncInterlock, interlock_url: str) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with locks.lease("feeds"):
            inside.set()
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await inside.wait()
    await locks.close()
    with pytest.raises(errors.LeaseLost, match="closed while the lease was held"):
        await working
    assert sessions(interlock_url) == {}


async def test_close_inside_a_block_cancels_the_block_and_completes(locks: AsyncInterlock, interlock_url: str) -> None:
    with pytest.raises(errors.LeaseLost, match="closed while the lease was held"):
        async with locks.lease("feeds"):
            await locks.close()
    assert holder(interlock_url) is None
    assert sessions(interlock_url) == {}


async def test_waiters_get_an_error_and_leave_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    await others.lease("feeds").acquire()
    waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    await locks.close()
    with pytest.raises(errors.ConfigurationError, match="was closed"):
        await waiter
    assert queue(interlock_url) == []


async def test_a_grant_that_is_under_way_during_close_is_released(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    asking = asyncio.ensure_future(locks.lease("feeds").acquire())
    await stop.reached()
    closing = asyncio.create_task(locks.close())
    assert not (await asyncio.wait([closing], timeout=0.05))[0], "close waits for the answer"
    stop.go()
    await closing
    with pytest.raises(errors.ConfigurationError, match="was closed"):
        await asking
    assert holder(interlock_url) is None
    assert sessions(interlock_url) == {}


async def test_a_grant_that_has_just_arrived_at_close_is_released(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    asking = asyncio.create_task(acquired(locks))
    await stop.reached()
    stop.go()
    await until_answered(asking)
    await locks.engine().close()
    with pytest.raises(errors.ConfigurationError, match="was closed"):
        await asking
    assert holder(interlock_url) is None
    assert sessions(interlock_url) == {}


async def acquired(locks: AsyncInterlock) -> AsyncGrant:
    return await locks.lease("feeds").acquire()


@pytest.mark.parametrize("purpose", ["acquire", "listen"])
async def test_a_connection_that_is_being_opened_is_closed_too(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch, purpose: str
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    connect = PostgresLeases._connect

    async def connect_slowly(store: PostgresLeases, what: str) -> Session:
        session = await connect(store, what)
        if what == purpose and store._holder.replica == "one":
            begun.set()
            await go.wait()
        return session

    monkeypatch.setattr(PostgresLeases, "_connect", connect_slowly)
    await others.lease("feeds").acquire()
    waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
    await begun.wait()
    closing = asyncio.create_task(locks.close())
    assert not (await asyncio.wait([closing], timeout=0.05))[0], "close waits for the connection"
    go.set()
    await closing
    with pytest.raises(errors.ConfigurationError, match="was closed"):
        await waiter
    await others.close()
    await until(lambda: sessions(interlock_url) == {})


async def test_a_caller_about_to_wait_gets_an_error_although_its_statement_is_cancelled(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    """The session that would listen for it is just running the statement that shows that it lives."""
    await others.lease("feeds").acquire()
    rewrite(interlock_url, "listen_v1", "SELECT", "SELECT pg_catalog.pg_advisory_lock(1); SELECT")
    with psycopg.connect(interlock_url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_advisory_lock(1)")
        waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
        await until(lambda: execute(interlock_url, STUCK))
        await locks.close()
        with pytest.raises(errors.ConfigurationError, match="was closed"):
            await waiter


async def test_close_completes_although_its_caller_is_cancelled(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "release")
    await locks.lease("feeds").acquire()
    closing = asyncio.create_task(locks.close())
    await stop.reached()
    for _ in range(2):
        closing.cancel()
        await asyncio.sleep(0)
    stop.go()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert sessions(interlock_url) == {}


async def test_a_closed_root_object_can_be_used_again_and_its_old_grants_stay_lost(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    old = await locks.lease("feeds").acquire()
    await locks.close()
    assert await old.release() is False
    with pytest.raises(errors.LeaseLost):
        await old.hand_over()
    assert sessions(interlock_url) == {}, "no connection was opened for that"
    async with locks.lease("feeds") as grant:
        assert grant.token > old.token
    await locks.close()
    await locks.close()
    assert sessions(interlock_url) == {}


async def test_close_succeeds_although_the_database_is_unreachable(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        locks = AsyncInterlock(url, request_timeout=0.2)
        await reach(locks)
        grant = await locks.lease("feeds").acquire()
        cable.cut()
        await locks.close()
        assert grant.lost
        cable.restore()


async def test_entering_checks_the_database_and_leaving_closes(interlock_url: str) -> None:
    async with AsyncInterlock(interlock_url) as locks:
        assert list(sessions(interlock_url).values()) == ["acquire"]
        async with locks.lease("feeds"):
            pass
    assert sessions(interlock_url) == {}
    async with locks.lifespan(object()):
        assert list(sessions(interlock_url).values()) == ["acquire"]
    assert sessions(interlock_url) == {}


async def test_a_failed_entry_raises_the_cause_and_leaves_nothing_open(database_url: str) -> None:
    with pytest.raises(errors.SchemaMissing):
        async with AsyncInterlock(database_url):
            pass
    assert sessions(database_url) == {}


def test_waiting_threads_get_an_error(sync_locks: Interlock, interlock_url: str) -> None:
    lease = sync_locks.lease("feeds")
    grant = lease.acquire()
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(lease.acquire) for _ in range(3)]
        eventually(lambda: len(queue(interlock_url)) == 3)
        sync_locks.close()
        for waiter in waiting:
            with pytest.raises(errors.ConfigurationError):
                waiter.result()
    assert grant.lost
    assert sessions(interlock_url) == {}


def test_a_release_after_close_starts_no_thread(sync_locks: Interlock, interlock_url: str) -> None:
    grant = sync_locks.lease("feeds").acquire()
    sync_locks.close()
    assert grant.release() is False
    told: list[str] = []
    grant.on_lost(told.append)
    assert told == ["closed"]
    with pytest.raises(errors.LeaseLost), grant:
        pass
    assert "interlock" not in [thread.name for thread in threading.enumerate()]
    assert sessions(interlock_url) == {}


def test_a_block_that_ends_during_close_ends_on_its_own_loop_thread(sync_locks: Interlock, interlock_url: str) -> None:
    """Its connections belong to that thread's loop; on another one, neither would ever be answered."""
    grant = sync_locks.lease("feeds").acquire()
    thread, sync_locks._thread = sync_locks.loop_thread(), None
    assert grant.release() is True
    assert holder(interlock_url) is None
    assert sync_locks._thread is None, "no other thread was started"
    sync_locks._thread = thread


def test_an_interrupted_close_still_closes(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    locks = Interlock(interlock_url).open()
    monkeypatch.setattr(LoopThread, "close", be_interrupted)
    with pytest.raises(KeyboardInterrupt), locks:
        pass
    assert "interlock" not in [thread.name for thread in threading.enumerate()]
    assert sessions(interlock_url) == {}


def test_threads_may_use_it_while_others_close_it_repeatedly(sync_locks: Interlock, interlock_url: str) -> None:
    done = threading.Event()
    granted = 0

    def work() -> None:
        nonlocal granted
        while not done.is_set():
            with contextlib.suppress(errors.LeaseError, errors.ConfigurationError):
                grant = sync_locks.lease("feeds").acquire(1)
                granted += 1
                grant.release()

    with ThreadPoolExecutor(8) as threads:
        working = [threads.submit(work) for _ in range(6)]
        for _ in range(15):
            before = granted
            eventually(lambda before=before: granted > before)  # type: ignore[misc]
            list(threads.map(lambda _: sync_locks.close(), range(2)))
        done.set()
        for worker in working:
            worker.result()
    sync_locks.close()
    assert holder(interlock_url) is None
    assert sessions(interlock_url) == {}
