"""Leases through PgBouncer in transaction mode: no prepared statements, no notifications, and the same promises."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from support.lease_engine import holder, queue, sessions, take_away, until
from support.pooler import pooled
from support.postgres import execute


@pytest.fixture
def pooled_url(interlock_url: str) -> Iterator[str]:
    """A pooler with few sessions: state that stays in one soon meets another client."""
    with pooled(interlock_url, "transaction", pool_size=3, in_turn=True) as url:
        yield url


@pytest.fixture(params=["detect", "transaction"])
async def locks(pooled_url: str, request: pytest.FixtureRequest) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(pooled_url, pooler=request.param, replica="one")
    yield locks
    await locks.close()


@pytest.fixture
async def others(pooled_url: str) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(pooled_url, replica="two")
    yield locks
    await locks.close()


async def test_acquire_renew_and_release(locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str) -> None:
    await locks.open()
    async with locks.lease("feeds", ttl=30, renew_every=0.05, metadata={"job": 1}) as grant:
        assert holder(interlock_url) == grant.grant_id
        renewals: list[float] = []
        grant.on_renewed(renewals.append)
        await until(lambda: len(renewals) > 5)
        assert await others.lease("feeds").try_acquire() is None
    await until(lambda: holder(interlock_url) is None)  # a release that is not answered in time is retried


async def test_an_unconfirmed_release_is_acquired_again_at_once(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    leases = [locks.lease(name, confirm_release=False) for name in ("feeds", "bills")]
    tokens = []
    for lease in (*leases[:1] * 5, *leases):
        async with lease as grant:
            tokens.append(grant.token)
    assert tokens == sorted(set(tokens))
    assert await others.lease("feeds").acquire(timeout=20)
    await until(lambda: holder(interlock_url, "bills") is None)


async def test_many_at_once(locks: AsyncInterlock, interlock_url: str) -> None:
    leases = [locks.lease(f"feed {number}") for number in range(50)]
    grants = await asyncio.gather(*(lease.try_acquire() for lease in leases))
    assert all(grants)
    await asyncio.gather(*(grant.release() for grant in grants if grant))
    assert execute(interlock_url, "SELECT count(*) FROM interlock.lease WHERE grant_id IS NOT NULL") == [(0,)]


async def test_waiters_poll_and_are_served_in_order(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await locks.lease("feeds").acquire()
    first = asyncio.ensure_future(others.lease("feeds").acquire())
    await until(lambda: len(queue(interlock_url)) == 1)
    second = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: len(queue(interlock_url)) == 2)
    await grant.release()
    await (await first).release()
    assert (await second).token > grant.token
    assert "listen" not in sessions(interlock_url).values()


async def test_a_direct_client_and_one_behind_the_pooler_wait_for_each_other(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    direct = AsyncInterlock(interlock_url)
    grant = await locks.lease("feeds").acquire()
    waiter = asyncio.ensure_future(direct.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    await grant.release()
    theirs = await waiter
    again = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    await theirs.release()
    await again
    await direct.close()


async def test_an_abandoned_wait_leaves_the_queue(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    await others.lease("feeds").acquire()
    with pytest.raises(errors.LeaseTimeout):
        await locks.lease("feeds").acquire(0.2)
    await until(lambda: queue(interlock_url) == [])


async def test_a_loss_is_reported(locks: AsyncInterlock, interlock_url: str) -> None:
    async def work() -> None:
        async with locks.lease("feeds", ttl=30, renew_every=0.05):
            take_away(interlock_url)
            await asyncio.Event().wait()

    with pytest.raises(errors.LeaseLost):
        await work()


async def test_handing_over(locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    assert await grant.hand_over() is False
    waiter = asyncio.ensure_future(others.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    assert await grant.hand_over() is True
    await waiter


@contextmanager
def other_clients(url: str) -> Iterator[None]:
    """Clients that use all sessions in turn: another client comes between two statements that need the same session."""
    done = threading.Event()

    def work() -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as client:
            while not done.is_set():
                client.execute("SELECT 1")

    with ThreadPoolExecutor(3) as threads:
        working = [threads.submit(work) for _ in range(3)]
        yield
        done.set()
    for client in working:
        client.result()


async def test_among_other_clients(locks: AsyncInterlock, pooled_url: str) -> None:
    with other_clients(pooled_url):
        async with locks.lease("kept", ttl=30, renew_every=0.05) as kept:
            for number in range(30):
                async with locks.lease(f"feed {number}"):
                    pass
            kept.check()


async def test_nothing_stays_behind_in_the_servers_sessions(locks: AsyncInterlock, pooled_url: str) -> None:
    """No prepared statement, no setting, no lock, no open transaction: the next client would meet it."""
    for number in range(6):
        async with locks.lease(f"feeds {number}", ttl=30, renew_every=0.05):
            await asyncio.gather(*(locks.lease(f"more {number} {more}").try_acquire() for more in range(3)))
    remaining = """
        SELECT (SELECT count(*) FROM pg_prepared_statements),
               (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
               current_setting('synchronous_commit'), current_setting('idle_in_transaction_session_timeout')
    """
    with psycopg.connect(pooled_url, autocommit=True, prepare_threshold=None) as next_client:
        for _ in range(6):
            assert next_client.execute(remaining).fetchall() == [(0, 0, "off", "0")]


async def test_a_direct_connection_is_not_taken_for_a_pooler(interlock_url: str) -> None:
    async def wait(locks: AsyncInterlock) -> None:
        await locks.lease("feeds").acquire()

    async with AsyncInterlock(interlock_url) as locks, locks.lease("feeds"):
        waiting = asyncio.create_task(wait(locks))
        await until(lambda: "listen" in sessions(interlock_url).values())
        waiting.cancel()
