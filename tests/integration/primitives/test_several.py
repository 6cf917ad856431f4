"""Several leases at once: all or none, and never a deadlock."""

import asyncio
import random
import threading

import psycopg
import pytest

from interlock import AsyncInterlock, Interlock, errors
from interlock.coordination.lease.several import AsyncGrants
from interlock.coordination.sync.grant import Grant
from support.lease_engine import cancel_as_it_ends, holder, queue, stop_after, take_away, until
from support.postgres import execute

HELD = "SELECT name FROM interlock.held_v1('')"


def held(url: str) -> list[str]:
    return [name for (name,) in execute(url, HELD)]


async def test_all_or_none(locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str) -> None:
    async with locks.leases("c", "a", "b") as grants:
        assert list(grants.tokens) == ["a", "b", "c"]
        assert held(interlock_url) == ["a", "b", "c"]
        assert grants.remaining > 0
        grants.check()
        assert await others.leases("b", "d").try_acquire() is None
        await until(lambda: "d" not in held(interlock_url))
        with pytest.raises(errors.LeaseTimeout, match="'b', 'd' were not acquired together"):
            await others.leases("d", "b").acquire(timeout=0.2)
        with pytest.raises(errors.LeaseTimeout):
            await others.leases("d", "b").acquire(timeout=0)
    await until(lambda: held(interlock_url) == [])


async def test_a_waiter_for_one_lease_holds_none_that_comes_later(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await locks.lease("a").acquire()

    async def both() -> AsyncGrants:
        return await others.leases("b", "a").acquire()

    task = asyncio.create_task(both())
    await until(lambda: queue(interlock_url, "a"))
    await until(lambda: held(interlock_url) == ["a"])
    await grant.release()
    assert list((await task).tokens) == ["a", "b"]


async def test_no_order_of_the_names_deadlocks(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    inside: set[str] = set()

    async def work(root: AsyncInterlock) -> None:
        for _ in range(5):
            names = random.sample(["a", "b", "c", "d"], 2)
            async with root.leases(*names):
                assert not inside & set(names)
                inside.update(names)
                await asyncio.sleep(0)
                inside.difference_update(names)

    await asyncio.gather(*(work(root) for root in (locks, others) * 3))
    await until(lambda: held(interlock_url) == [])


async def test_a_loss_of_one_is_a_loss_of_all(locks: AsyncInterlock, interlock_url: str) -> None:
    async def work() -> None:
        async with locks.leases("a", "b", ttl=1):
            take_away(interlock_url, "a")
            take_away(interlock_url, "b")
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    with pytest.raises(errors.LeaseLost) as caught:
        await task
    assert caught.value.name in ("a", "b")
    assert task.cancelling() == 0


async def test_a_lease_that_is_lost_during_the_wait_for_others_is_acquired_again(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await locks.lease("b").acquire()

    async def both() -> AsyncGrants:
        return await others.leases("a", "b", ttl=4).acquire()

    task = asyncio.create_task(both())
    await until(lambda: queue(interlock_url, "b"))
    first = holder(interlock_url, "a")
    execute(interlock_url, "SELECT interlock.break_v1('a', true, false, 'a', 'test')")
    await until(lambda: others.metrics.losses["refused"] or others.metrics.losses["broken"])
    await grant.release()
    grants = await task
    assert not grants.lost
    assert holder(interlock_url, "a") == grants.grants[0].grant_id != first


@pytest.mark.parametrize("lost", ["a", "b"])
async def test_one_guard_for_all(locks: AsyncInterlock, interlock_url: str, lost: str) -> None:
    grants = await locks.leases("a", "b").acquire()
    async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
        async with connection.transaction():
            await grants.guard(connection)
        execute(interlock_url, "SELECT interlock.break_v1(%s, true, false, 'a', 'test')", lost)
        with pytest.raises(errors.LeaseLost):
            async with connection.transaction():
                await grants.guard(connection)


async def test_one_guard_satisfies_the_protected_tables_of_all(locks: AsyncInterlock, interlock_url: str) -> None:
    for name in ("a", "b"):
        execute(interlock_url, f"CREATE TABLE {name} (); SELECT interlock.protect_v1('{name}', '{name}')")
    async with locks.leases("b", "a") as grants, await psycopg.AsyncConnection.connect(interlock_url) as connection:
        await grants.guard(connection)
        await connection.execute("INSERT INTO a DEFAULT VALUES; INSERT INTO b DEFAULT VALUES")
        await connection.commit()
        await connection.execute("INSERT INTO a DEFAULT VALUES")
        with pytest.raises(psycopg.Error, match="may only be written under the lease 'a'"):
            await connection.commit()


async def test_a_cancelled_wait_keeps_none(
    interlock_url: str, others: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    fresh = AsyncInterlock(interlock_url)

    async def both() -> AsyncGrants:
        return await fresh.leases("a", "b").acquire()

    task = asyncio.create_task(both())
    await stop.reached()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stop.go()
    await until(lambda: held(interlock_url) == [])
    await fresh.close()


async def test_bad_input(locks: AsyncInterlock) -> None:
    with pytest.raises(errors.ConfigurationError, match="at least one name"):
        locks.leases()
    with pytest.raises(errors.ConfigurationError, match="given twice"):
        locks.leases("a", "b", "a")
    async with locks.leases("a", "b"):
        with pytest.raises(errors.LeaseNested):
            await locks.leases("b", "c").acquire()


def test_in_threads(sync_locks: Interlock, interlock_url: str) -> None:
    inside: set[str] = set()
    errors_seen: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                names = random.sample(["a", "b", "c"], 2)
                with sync_locks.leases(*names) as grants:
                    grants.check()
                    assert not inside & set(names)
                    inside.update(names)
                    inside.difference_update(names)
        except BaseException as error:
            errors_seen.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors_seen == []
    leases = sync_locks.leases("b", "a")
    with psycopg.connect(interlock_url) as connection, leases.acquire(timeout=5) as grants:
        assert leases.names == ("a", "b")
        assert sync_locks.leases("b", "c").try_acquire() is None
        grants.guard(connection)
        assert list(grants.tokens) == ["a", "b"]
        assert not grants.lost
        assert grants.remaining > 0
    assert leases.try_acquire() is not None


async def test_a_block_whose_task_is_cancelled_as_it_ends_keeps_none(locks: AsyncInterlock, interlock_url: str) -> None:
    await cancel_as_it_ends(locks.leases("a", "b", ttl=60))
    await until(lambda: held(interlock_url) == [])


def test_an_interrupt_during_a_release_keeps_none(
    sync_locks: Interlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = sync_locks.leases("a", "b", "c", ttl=60).acquire()
    release = Grant.release

    def interrupt_in_the_first(grant: Grant) -> bool:
        released = release(grant)
        if grant.name == "a":
            raise KeyboardInterrupt
        return released

    monkeypatch.setattr(Grant, "release", interrupt_in_the_first)
    with pytest.raises(KeyboardInterrupt), grants:
        pass
    assert held(interlock_url) == []
