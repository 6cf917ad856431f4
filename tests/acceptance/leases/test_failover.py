"""A standby takes over while leases are held and waited for, by processes that can reach it and by one that cannot."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.lease.grant import AsyncGrant
from interlock.schema import whole_schema
from support.histories import counts, violations
from support.history_recorder import Recorder, recorded
from support.lease_engine import reach
from support.postgres import execute
from support.replication import Pair, primary_and_standby
from support.sql_leases import row, step_clock
from support.waiting import eventually

either_kind = pytest.mark.parametrize("pair", ["asynchronous", "synchronous"], indirect=True)
asynchronous = pytest.mark.parametrize("pair", ["asynchronous"], indirect=True)
synchronous = pytest.mark.parametrize("pair", ["synchronous"], indirect=True)

WAITERS = "SELECT count(*) FROM interlock.waiters_v1('feeds')"
STOP_WAITING_FOR_STANDBY = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with primary_and_standby(synchronous=request.param == "synchronous") as pair:
        execute(pair.url, whole_schema("interlock"))
        pair.wait_caught_up()
        yield pair


async def fail_over(pair: Pair) -> None:
    await asyncio.to_thread(pair.stop_primary)
    await asyncio.to_thread(pair.promote)


async def renewed(url: str, grant: AsyncGrant) -> None:
    """Return after one more renewal."""
    before = row(url, grant.name)
    await asyncio.to_thread(eventually, lambda: row(url, grant.name).renewed_at != before.renewed_at)


@pytest.mark.exhaustive(beyond=1)
@either_kind
async def test_a_holder_loses_its_grant_at_a_failover_and_goes_on_at_the_new_primary(pair: Pair) -> None:
    async with AsyncInterlock(pair.url) as locks:
        lease = locks.lease("feeds", ttl=30, renew_every=0.5)
        stale = await lease.acquire()
        await renewed(pair.primary_url, stale)
        pair.wait_caught_up()
        await fail_over(pair)
        assert await stale.wait_lost() == "failover"
        step_clock(pair.standby_url, 30)
        async with lease.acquire(timeout=20) as current:
            assert current.token > stale.token
            before = row(pair.standby_url, "feeds")
            assert not await stale.release()
            async with await psycopg.AsyncConnection.connect(pair.url) as connection:
                with pytest.raises((errors.LeaseLost, errors.GuardRefused)):
                    await stale.guard(connection)
                await current.guard(connection)
            assert row(pair.standby_url, "feeds").grant_id == before.grant_id == current.grant_id


@pytest.mark.exhaustive
@asynchronous
async def test_a_lease_is_not_granted_while_a_cut_off_holder_trusts_it(pair: Pair, tmp_path: Path) -> None:
    """The new primary does not have that grant; its waiter was in the queue of the old one."""
    recorder = Recorder(tmp_path, "both")
    async with AsyncInterlock(pair.primary_url) as cut_off, AsyncInterlock(pair.url) as other:
        await (await cut_off.lease("feeds", ttl=3).acquire()).release()
        await asyncio.to_thread(pair.wait_caught_up)
        pair.freeze()
        lost = await cut_off.lease("feeds", ttl=3).acquire()
        waiting = asyncio.create_task(other.lease("feeds", ttl=3).acquire(timeout=30).__aenter__())
        await asyncio.to_thread(eventually, lambda: execute(pair.primary_url, WAITERS) == [(1,)])
        await fail_over(pair)
        recorder.granted(lost)
        assert row(pair.standby_url, "feeds").grant_id is None
        current = await waiting
        recorder.granted(current)
        await current.release()
        assert lost.lost
    events = recorded(tmp_path)
    assert counts(events)["granted"] == 2
    assert violations(events) == []


@pytest.mark.exhaustive
@synchronous
async def test_an_isolated_old_primary_grants_and_renews_nothing(pair: Pair, tmp_path: Path) -> None:
    """A client that can only reach the old primary holds its lease until its trust is over, and gets no other."""
    recorder = Recorder(tmp_path, "both")
    async with AsyncInterlock(pair.primary_url, request_timeout=0.5) as cut_off:
        await reach(cut_off)
        await (await cut_off.lease("reports", ttl=3).acquire()).release()
        old = await cut_off.lease("feeds", ttl=3).acquire()
        recorder.granted(old)
        await asyncio.to_thread(pair.wait_caught_up)
        pair.freeze()
        await asyncio.to_thread(pair.promote)
        async with AsyncInterlock(pair.standby_url) as other:
            for name in ("feeds", "reports"):
                recorder.granted(await other.lease(name, ttl=3).acquire(timeout=40))
            recorder.trusted(old)
            with pytest.raises((errors.LeaseTimeout, errors.StoreError)):
                recorder.granted(await cut_off.lease("reports", ttl=30).acquire(timeout=2))
    assert violations(recorded(tmp_path)) == []


@synchronous
async def test_a_commit_that_did_not_wait_for_the_standby_is_not_a_grant(pair: Pair) -> None:
    """PostgreSQL reports it as done, with only a warning."""
    async with AsyncInterlock(pair.primary_url) as locks:
        await (await locks.lease("feeds", ttl=8).acquire()).release()
        await asyncio.to_thread(pair.wait_caught_up)
        pair.freeze()
        asking = asyncio.create_task(locks.lease("feeds", ttl=8).try_acquire())
        for _ in range(2):  # it asks again once
            await asyncio.to_thread(
                eventually, lambda: execute(pair.primary_url, STOP_WAITING_FOR_STANDBY) == [(True,)]
            )
        with pytest.raises(errors.StoreError, match="standby"):
            await asking
