"""A standby takes over while leases are held and waited for: by processes that can reach it, and by one that cannot."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.grant import AsyncGrant
from interlock.schema import whole_schema
from support.histories import counts, violations
from support.postgres import execute
from support.recording import Recorder, recorded
from support.replication import Pair, primary_and_standby
from support.sql_leases import row, step_clock
from support.waiting import eventually

either_kind = pytest.mark.parametrize("pair", ["asynchronous", "synchronous"], indirect=True)
asynchronous = pytest.mark.parametrize("pair", ["asynchronous"], indirect=True)
synchronous = pytest.mark.parametrize("pair", ["synchronous"], indirect=True)

WAITERS = "SELECT count(*) FROM interlock.waiters_v1('feeds')"


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
    """Return when it was renewed once more."""
    before = row(url, grant.name)
    await asyncio.to_thread(eventually, lambda: row(url, grant.name).renewed_at != before.renewed_at)


@either_kind
async def test_a_holder_is_told_of_the_new_primary_and_the_client_goes_on_there(pair: Pair) -> None:
    async with AsyncInterlock(pair.url) as locks:
        lease = locks.lease("feeds", ttl=8)
        stale = await lease.acquire()
        await renewed(pair.primary_url, stale)
        pair.wait_caught_up()
        await fail_over(pair)
        assert await stale.wait_lost() == "failover"
        step_clock(pair.standby_url, 8)
        async with lease.acquire(timeout=20) as current:
            assert current.token > stale.token
            before = row(pair.standby_url, "feeds")
            assert not await stale.release()
            async with await psycopg.AsyncConnection.connect(pair.url) as connection:
                with pytest.raises((errors.LeaseLost, errors.GuardRefused)):
                    await stale.guard(connection)
                await current.guard(connection)
            assert row(pair.standby_url, "feeds").grant_id == before.grant_id == current.grant_id


@asynchronous
async def test_nobody_is_granted_what_one_who_was_cut_off_still_trusts(pair: Pair, tmp_path: Path) -> None:
    """The new primary has never heard of that grant; who waits for it was in the queue of the old one."""
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


@synchronous
async def test_what_the_standby_did_not_confirm_is_not_granted_twice(pair: Pair, tmp_path: Path) -> None:
    """PostgreSQL reports a commit as done, with a mere warning, when the wait for its standby is cancelled."""
    recorder = Recorder(tmp_path, "both")
    async with AsyncInterlock(pair.primary_url) as cut_off, AsyncInterlock(pair.url) as other:
        await (await cut_off.lease("feeds", ttl=4).acquire()).release()
        await asyncio.to_thread(pair.wait_caught_up)
        pair.freeze()
        asking = asyncio.create_task(cut_off.lease("feeds", ttl=4).try_acquire())
        cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        await asyncio.to_thread(eventually, lambda: execute(pair.primary_url, cancel) == [(True,)])
        try:
            if unconfirmed := await asking:
                recorder.granted(unconfirmed)
        except errors.StoreError:
            pass
        await fail_over(pair)
        current = await other.lease("feeds", ttl=4).acquire(timeout=30)
        recorder.granted(current)
        await current.release()
    assert violations(recorded(tmp_path)) == []
