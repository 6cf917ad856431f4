"""Forking servers: root objects made before the fork work in every child, and the parent keeps its leases."""

import asyncio
import gc
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interlock import AsyncInterlock, Interlock, errors
from support.forks import Child, in_child
from support.lease_engine import holder, queue, sessions, until
from support.postgres import execute
from support.waiting import eventually

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def test_an_unused_root_object_works_in_every_child(sync_locks: Interlock, interlock_url: str) -> None:
    """As in a server that loads the application once and then forks its workers."""
    lease = sync_locks.lease("feeds")
    execute(interlock_url, "CREATE TABLE counter AS SELECT 0 AS value")

    def work() -> int:
        for _ in range(5):
            with lease:
                ((value,),) = execute(interlock_url, "SELECT value FROM counter")
                execute(interlock_url, "UPDATE counter SET value = %s", value + 1)
        sync_locks.close()
        return os.getpid()

    workers = [Child(work) for _ in range(3)]
    assert [worker.result() for worker in workers] == [worker.pid for worker in workers]
    assert [worker.end() for worker in workers] == ["", "", ""]
    assert execute(interlock_url, "SELECT value FROM counter") == [(15,)]


def test_the_parents_grant_is_lost_in_the_child_and_stays_held_in_the_parent(
    sync_locks: Interlock, interlock_url: str
) -> None:
    told: list[str] = []

    def look() -> tuple[Any, ...]:
        grant.on_lost(told.append)
        with pytest.raises(errors.LeaseLost, match="the process that forked this one holds it"):
            grant.check()
        with pytest.raises(errors.LeaseLost):
            grant.hand_over()
        return grant.lost, grant.remaining, grant.release(), told

    with sync_locks.lease("feeds", ttl=30, renew_every=0.1) as grant:
        assert in_child(look) == [True, 0.0, False, ["inherited"]]
        grant.check()
        trusted_until = grant._grant.trusted_until
        eventually(lambda: grant._grant.trusted_until > trusted_until)
        assert holder(interlock_url) == grant.grant_id
        assert told == []


def test_a_child_that_leaves_the_parents_block_gets_an_error_and_releases_nothing(
    sync_locks: Interlock, interlock_url: str
) -> None:
    lease = sync_locks.lease("feeds")
    grant = lease.__enter__()

    def leave() -> None:
        with pytest.raises(errors.LeaseLost, match="the process that forked this one holds it"):
            lease.__exit__(None, None, None)

    in_child(leave)
    assert holder(interlock_url) == grant.grant_id
    lease.__exit__(None, None, None)
    assert holder(interlock_url) is None


def test_a_child_acquires_for_itself_while_the_parent_works_on(sync_locks: Interlock, interlock_url: str) -> None:
    """At the fork the parent holds, waits and renews."""
    lease = sync_locks.lease("feeds", ttl=30, renew_every=0.05)
    grant = lease.acquire()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lease.acquire)
        eventually(lambda: queue(interlock_url))

        def ask() -> tuple[Any, ...]:
            assert sync_locks.lease("feeds").try_acquire() is None
            with sync_locks.lease("other") as other:
                assert holder(interlock_url, "other") == other.grant_id
                (pid,) = execute(interlock_url, "SELECT pid FROM interlock.lease WHERE name = 'other'")[0]
            figures = sync_locks.metrics.snapshot()
            sync_locks.close()
            gc.collect()
            return pid == os.getpid(), figures.held, figures.acquires["acquired"], figures.waiters

        assert in_child(ask) == [True, 0, 1, 0]
        grant.check()
        grant.release()
        assert waiting.result().release() is True
        assert len(sessions(interlock_url)) == 3


async def test_a_child_of_an_async_process_acquires_on_its_own_loop(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    await others.lease("busy").acquire()
    waiter = asyncio.ensure_future(locks.lease("busy").acquire())
    await until(lambda: queue(interlock_url, "busy"))

    async def ask(grant: Any) -> tuple[Any, ...]:
        async with locks:
            with pytest.raises(errors.LeaseLost):
                await grant.hand_over()
            lost = grant.lost, grant.remaining, await grant.release(), await grant.wait_lost()
            assert await locks.lease("feeds").try_acquire() is None
            async with locks.lease("other") as other:
                return lost, holder(interlock_url, "other") == other.grant_id, locks.metrics.snapshot().held

    async with locks.lease("feeds", ttl=30, renew_every=0.05) as grant:
        assert in_child(lambda: asyncio.run(ask(grant))) == [[True, 0.0, False, "inherited"], True, 1]
        renewals: list[float] = []
        grant.on_renewed(renewals.append)
        await until(lambda: renewals)
        assert holder(interlock_url) == grant.grant_id
    assert not waiter.done()
    waiter.cancel()


def test_a_child_keeps_no_connection_of_a_parent_that_died(interlock_url: str) -> None:
    """Otherwise the parent's waiters would count as alive."""

    def hold_and_fork() -> int:
        locks = Interlock(interlock_url)
        locks.lease("feeds", ttl=30, renew_every=0.05).acquire()
        eventually(lambda: locks.metrics.snapshot().renewal_rounds["done"])  # so both connections are made
        if (grandchild := os.fork()) == 0:
            os.close(2)
            signal.pause()
        return grandchild

    parent = Child(hold_and_fork, stays=True)
    grandchild = parent.result()
    try:
        assert len(sessions(interlock_url)) == 2
        assert parent.kill() == ""
        eventually(lambda: sessions(interlock_url) == {})
        os.kill(grandchild, 0)
    finally:
        os.kill(grandchild, signal.SIGKILL)
