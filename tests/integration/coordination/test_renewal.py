"""Renewals: one statement for all leases of a process, trust from before it was sent, no lease blocks another."""

import asyncio
import tracemalloc
from collections.abc import Callable

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from interlock.clock import boottime
from support.lease_engine import (
    count_calls,
    end_session,
    fail,
    holder,
    move_clock,
    reach,
    sessions,
    stop_after,
    take_away,
    until,
)
from support.postgres import execute
from support.proxy import cable_to
from support.sql_leases import step_clock

UNREACHABLE = errors.DatabaseUnreachable("It did not answer in time.")


async def test_all_due_leases_are_renewed_in_one_statement(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, "renew")
    for number in range(50):  # one after the other, so that they would be due at different times
        await locks.lease(f"feed {number}", ttl=30, renew_every=0.5).acquire()
    await until(lambda: any(len(grants) == 50 for grants, _ in calls))
    begun = len(calls)
    await until(lambda: len(calls) > begun + 2)
    assert all(len(grants) == 50 for grants, _ in calls[begun + 1 :])


@pytest.mark.exhaustive
async def test_a_lease_is_held_until_it_is_released(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds", ttl=4, renew_every=0.1).acquire()
    first = grant.trusted_until
    await until(lambda: grant.trusted_until > first + 4)
    assert not grant.lost
    assert holder(interlock_url) == grant.grant_id


async def test_the_trust_in_a_grant_counts_from_before_its_request(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "acquire")
    asking = asyncio.ensure_future(locks.lease("feeds", ttl=30).acquire())
    await stop.reached()
    answered_at = boottime()
    stop.go()
    assert (await asking).trusted_until < answered_at + 30 - 1


async def test_the_trust_of_a_renewal_counts_from_before_its_request(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "renew")
    grant = await locks.lease("feeds", ttl=30, renew_every=0.05).acquire()
    before = grant.trusted_until
    await stop.reached()
    answered_at = boottime()
    assert grant.trusted_until == before, "the answer has not come yet"
    stop.armed = False
    renewals: list[float] = []
    grant.on_renewed(renewals.append)
    stop.go()
    await until(lambda: renewals)
    assert before < renewals[0] < answered_at + 30 - 1


async def test_a_slow_answer_does_not_extend_trust(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        locks = AsyncInterlock(url)
        await (await locks.lease("feeds").acquire()).release()
        cable.delay = 0.3
        asking = asyncio.ensure_future(locks.lease("feeds", ttl=30).acquire())
        await until(lambda: holder(interlock_url))
        granted_by = boottime()
        assert (await asking).trusted_until < granted_by + 30 - 1
        cable.delay = 0
        await locks.close()


async def test_a_request_whose_answer_was_lost_finds_its_own_grant(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        locks = AsyncInterlock(url, request_timeout=0.5)
        await reach(locks)
        cable.swallow_replies()
        asking = asyncio.ensure_future(locks.lease("feeds", ttl=30).acquire())
        first = await until(lambda: holder(interlock_url))
        (before,) = execute(interlock_url, "SELECT token, acquired_at FROM interlock.lease")
        await until(lambda: cable.swallowed)
        cable.restore()
        grant = await asking
        assert grant.grant_id == first
        assert execute(interlock_url, "SELECT token, acquired_at FROM interlock.lease") == [before]
        assert grant.token == before[0]
        await locks.close()


async def test_a_missed_round_is_survived(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "renew", UNREACHABLE)
    grant = await locks.lease("feeds", ttl=30, renew_every=0.1).acquire()
    await until(lambda: locks.metrics.snapshot().renewal_rounds["done"] > 4)
    assert locks.metrics.snapshot().renewal_rounds["failed"] == 1
    grant.check()
    assert holder(interlock_url) == grant.grant_id


@pytest.mark.parametrize("error", [errors.ConfigurationError("Gave bytes."), errors.AccessDenied("No password.")])
async def test_after_any_error_of_a_round_the_next_round_comes(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch, error: errors.InterlockError
) -> None:
    fail(monkeypatch, "renew", error)
    grant = await locks.lease("feeds", ttl=30, renew_every=0.1).acquire()
    await until(lambda: locks.metrics.snapshot().renewal_rounds["done"] > 2)
    assert locks.metrics.snapshot().renewal_rounds["failed"] == 1
    grant.check()


async def test_a_heartbeat_connection_that_ends_is_replaced(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds", ttl=30, renew_every=0.1).acquire()
    await until(lambda: "heartbeat" in sessions(interlock_url).values())
    await asyncio.to_thread(end_session, interlock_url, "heartbeat")
    await until(lambda: "heartbeat" in sessions(interlock_url).values())
    grant.check()


async def test_a_locked_row_does_not_block_other_renewals(locks: AsyncInterlock, interlock_url: str) -> None:
    blocked = await locks.lease("blocked", ttl=30, renew_every=0.1).acquire()
    free = await locks.lease("free", ttl=30, renew_every=0.1).acquire()
    renewals: dict[str, list[float]] = {"blocked": [], "free": []}
    with psycopg.connect(interlock_url) as other:
        other.execute("SELECT FROM interlock.lease WHERE name = 'blocked' FOR UPDATE")
        blocked.on_renewed(renewals["blocked"].append)
        free.on_renewed(renewals["free"].append)
        await until(lambda: len(renewals["free"]) > 3)
        assert renewals["blocked"] == []
    await until(lambda: renewals["blocked"])
    blocked.check()


async def test_a_row_that_stays_locked_loses_only_its_own_lease(locks: AsyncInterlock, interlock_url: str) -> None:
    blocked = await locks.lease("blocked", ttl=4, renew_every=0.1).acquire()
    free = await locks.lease("free", ttl=30, renew_every=0.1).acquire()
    renewals: list[float] = []
    with psycopg.connect(interlock_url) as other:
        other.execute("SELECT FROM interlock.lease WHERE name = 'blocked' FOR UPDATE")
        free.on_renewed(renewals.append)
        assert await blocked.wait_lost() == "expired"
        assert renewals
    free.check()


async def test_a_late_renewal_does_not_revive_a_lease(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "renew")
    grant = await locks.lease("feeds", ttl=4, renew_every=0.1).acquire()
    await stop.reached()
    assert await grant.wait_lost() == "expired"
    stop.go()
    await asyncio.sleep(0)
    await until(lambda: locks.metrics.snapshot().renewal_rounds["done"] == 1)
    assert grant.lost
    assert grant.remaining == 0


async def test_trust_that_ended_before_the_answer_does_not_come_back(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "renew")
    grant = await locks.lease("feeds", ttl=3600, renew_every=0.2).acquire()
    with monkeypatch.context() as patch:
        move_clock(patch, 3589)
        await stop.reached()
        move_clock(patch, 10)
        stop.go()
        assert await grant.wait_lost() == "expired"


async def test_a_lease_that_expired_in_the_database_is_lost_although_it_is_free(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    grant = await locks.lease("feeds", ttl=30, renew_every=0.05).acquire()
    execute(interlock_url, "UPDATE interlock.lease SET expires_at = interlock.now_v1()")
    assert await grant.wait_lost() == "refused"


async def test_a_lost_lease_does_not_affect_the_others(locks: AsyncInterlock, interlock_url: str) -> None:
    lost = await locks.lease("lost", ttl=30, renew_every=0.05).acquire()
    kept = await locks.lease("kept", ttl=30, renew_every=0.05).acquire()
    take_away(interlock_url, "lost")
    await lost.wait_lost()
    renewals: list[float] = []
    kept.on_renewed(renewals.append)
    await until(lambda: len(renewals) > 2)


async def test_a_long_lease_does_not_share_the_timeout_of_a_short_one(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a slow database that loses the short lease would lose the long one too."""
    calls = count_calls(monkeypatch, "renew")
    await locks.lease("long", ttl=30, renew_every=0.1).acquire()
    await locks.lease("short", ttl=3, renew_every=0.1).acquire()
    await until(lambda: len(calls) > 10)
    timeouts = {grant.name: timeout for grants, timeout in calls for grant in grants}
    assert timeouts == {"long": 7.5, "short": 0.75}


async def test_a_released_grant_gets_no_renewal_callback(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "renew")
    grant = await locks.lease("feeds", ttl=30, renew_every=0.05).acquire()
    renewals: list[float] = []
    grant.on_renewed(renewals.append)
    await stop.reached()
    await grant.release()
    stop.go()
    await until(lambda: locks.metrics.snapshot().renewal_rounds["done"])
    assert renewals == []
    assert not grant.lost


async def test_a_step_of_the_databases_clock_ends_the_trust(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds", ttl=30, renew_every=0.05).acquire()
    await until(lambda: locks.metrics.snapshot().renewal_rounds["done"] > 1)
    step_clock(interlock_url, -3600)
    assert await grant.wait_lost() == "clock"


async def test_a_step_of_the_clock_while_nothing_is_held_does_not_matter(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    async with locks.lease("feeds", ttl=30, renew_every=0.05):
        await until(lambda: locks.metrics.snapshot().renewal_rounds["done"] > 1)
    step_clock(interlock_url, 3600)
    grant = await locks.lease("feeds", ttl=30, renew_every=0.05).acquire()
    renewals: list[float] = []
    grant.on_renewed(renewals.append)
    await until(lambda: len(renewals) > 2)
    grant.check()


async def test_a_held_lease_costs_less_than_two_kilobytes(
    locks: AsyncInterlock, record_property: Callable[[str, object], None]
) -> None:
    leases = [locks.lease(f"feed {number}") for number in range(1000)]
    await asyncio.gather(*(lease.try_acquire() for lease in leases[:100]))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    grants = await asyncio.gather(*(lease.try_acquire() for lease in leases[100:]))
    each = (tracemalloc.get_traced_memory()[0] - before) / len(grants)
    tracemalloc.stop()
    record_property("figure", f"memory of a held lease: {each:.0f} bytes")
    assert each < 2048
