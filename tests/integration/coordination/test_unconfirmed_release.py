"""Blocks that do not wait for the confirmation of their release: it is sent in order, and waiters come first."""

import asyncio
import threading

import psycopg
import pytest

from interlock import AsyncInterlock, Interlock, errors
from interlock.coordination.events import Lost
from support.lease_engine import holder, queue, reach, statements, stop_after, stop_before, until
from support.postgres import execute
from support.proxy import cable_to
from support.sql_leases import ask


async def test_the_lease_is_released_after_the_block(locks: AsyncInterlock, interlock_url: str) -> None:
    async with locks.lease("feeds", confirm_release=False) as grant:
        assert holder(interlock_url) == grant.grant_id
    assert grant.ended
    assert not grant.lost
    await until(lambda: holder(interlock_url) is None)


async def test_acquiring_again_at_once_gives_a_new_grant_with_a_higher_token(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = locks.lease("feeds", confirm_release=False, metadata={"for": "a while"})
    async with lease as first:
        pass
    queries = statements(monkeypatch)
    async with lease as second:
        assert holder(interlock_url) == second.grant_id
    assert second.token > first.token
    assert second.grant_id != first.grant_id
    assert queries == ["release_one", "acquire_one"]
    assert execute(interlock_url, "SELECT metadata ->> 'for' FROM interlock.lease") == [("a while",)]


async def test_many_releases_and_requests_share_statements(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = [locks.lease(f"feed {number}", confirm_release=False) for number in range(8)]

    async def work(rounds: int) -> None:
        async def cycle(number: int) -> None:
            for _ in range(rounds):
                async with leases[number]:
                    pass

        await asyncio.gather(*map(cycle, range(8)))

    await work(2)
    queries = statements(monkeypatch)
    await work(10)
    assert queries.count("acquire_many") >= 9
    assert queries.count("release_many") >= 9
    assert len(queries) <= 24, queries


async def test_a_waiter_comes_first(locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str) -> None:
    lease = locks.lease("feeds", confirm_release=False)
    async with lease as first:
        waiter = asyncio.ensure_future(others.lease("feeds").acquire())
        await until(lambda: queue(interlock_url))
    async with asyncio.timeout(30):
        again = asyncio.ensure_future(lease.acquire())
        second = await waiter
        assert not again.done()
        await second.release()
        third = await again
    assert first.token < second.token < third.token


async def test_a_try_after_the_block_finds_the_lease_free_at_any_stage_of_the_release(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = locks.lease("feeds", confirm_release=False)
    stop = stop_before(monkeypatch, "release")
    async with lease:
        pass
    await stop.reached()
    trying = asyncio.ensure_future(lease.try_acquire())
    await asyncio.sleep(0)
    assert holder(interlock_url) is not None
    stop.go()
    assert await trying is not None


async def test_acquiring_again_waits_for_an_open_guard(locks: AsyncInterlock, interlock_url: str) -> None:
    lease = locks.lease("feeds", confirm_release=False)
    with psycopg.connect(interlock_url) as connection:
        async with lease as first:
            connection.execute("SELECT interlock.guard_v1(%s, %s, %s)", [first.name, first.token, first.grant_id])
        waiting = asyncio.ensure_future(lease.acquire())
        await until(lambda: holder(interlock_url) is None)
        assert not waiting.done()
        connection.commit()
    assert (await waiting).token > first.token


async def test_a_lease_that_an_operator_broke_is_reported_as_lost_after_the_block(interlock_url: str) -> None:
    told: list[object] = []
    async with AsyncInterlock(interlock_url, on_event=told.append) as locks:
        async with locks.lease("feeds", confirm_release=False) as grant:
            grant.on_lost(told.append)
            execute(interlock_url, "SELECT interlock.break_v1('feeds', true, false, 'a test', 'somebody')")
        await until(lambda: "refused" in told)
        assert grant.lost
        assert [event.why for event in told if isinstance(event, Lost)] == ["refused"]
        assert locks.metrics.snapshot().held == 0
        assert ask(interlock_url, "feeds", ttl=30).status == "granted"


async def test_an_expired_lease_ends_the_block_with_lease_lost(locks: AsyncInterlock) -> None:
    with pytest.raises(errors.LeaseLost):
        async with locks.lease("feeds", confirm_release=False) as grant:
            grant.trusted_until = 0.0


async def test_an_abandoned_request_after_the_block_leaves_the_lease_free(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    stop.armed = False
    lease = locks.lease("feeds", confirm_release=False)
    async with lease:
        pass
    stop.armed = True
    asking = asyncio.ensure_future(lease.acquire())
    await stop.reached()
    asking.cancel()
    stop.go()
    await until(lambda: holder(interlock_url) is None)
    assert asking.cancelled()


async def test_after_a_lost_answer_the_lease_is_granted_once_and_released_once(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        locks = AsyncInterlock(url, request_timeout=0.3)
        await reach(locks)
        lease = locks.lease("feeds", ttl=60, confirm_release=False)
        for _ in range(2):  # by the second time the statement is prepared, and can be sent without an answer
            async with lease as first:
                pass
        releases = locks.engine()._releases
        await until(lambda: releases.unconfirmed("feeds") is None)
        cable.swallow_replies()
        asking = asyncio.ensure_future(lease.acquire())
        await until(lambda: holder(interlock_url) not in (None, first.grant_id))
        cable.restore()
        async with asyncio.timeout(30), await asking as second:
            assert holder(interlock_url) == second.grant_id
        await until(lambda: holder(interlock_url) is None)
        await locks.close()


async def test_close_delivers_unconfirmed_releases(interlock_url: str) -> None:
    async with AsyncInterlock(interlock_url) as locks, locks.lease("feeds", confirm_release=False):
        pass
    assert holder(interlock_url) is None


def test_threads_release_and_acquire_again(interlock_url: str) -> None:
    tokens: list[int] = []
    with Interlock(interlock_url) as locks:
        lease = locks.lease("feeds", confirm_release=False)

        def work() -> None:
            for _ in range(20):
                with lease as grant:
                    tokens.append(grant.token)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(tokens) == 60
    assert tokens == sorted(set(tokens))
    assert holder(interlock_url) is None


def test_close_right_after_the_block_delivers_the_release(interlock_url: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(10):
        with Interlock(interlock_url) as locks, locks.lease("feeds", confirm_release=False):
            pass
        assert holder(interlock_url) is None
    assert not [record for record in caplog.records if record.getMessage() == "lease.lost"]


def test_slots_are_refused(interlock_url: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="confirm_release"):
        Interlock(interlock_url).lease("feeds", slots=2, confirm_release=False)
