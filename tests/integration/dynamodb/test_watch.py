"""Taking over a held lease: DynamoDB has no clock, so a process has to have watched the lease."""

import pytest

from interlock.stores.dynamodb.row import Row
from interlock.stores.leases import AcquireRequest
from support.dynamodb import fresh_table
from support.dynamodb_stores import Clock, replicas


async def test_a_lease_is_taken_over_after_it_was_watched_unchanged_for_its_whole_length(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2") as (dead, heir):
        old = await dead.take()
        assert (await heir.ask()).status == "busy"
        heir.clock.pass_by(29)
        answer = await heir.ask()
        assert answer.status == "busy"
        assert 0 < answer.retry_after <= 1
        heir.clock.pass_by(1)
        assert (await heir.take()).token > old.token


async def test_a_new_watcher_waits_for_the_whole_ttl(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2", "web-3") as (dead, watcher, newcomer):
        await dead.take()
        await watcher.ask()
        for replica in (watcher, newcomer):
            replica.clock.pass_by(31)
        assert (await newcomer.ask()).status == "busy"
        assert (await watcher.ask()).status == "granted"


async def test_a_renewal_restarts_the_watch(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2") as (holder, other):
        grant = await holder.take()
        await other.ask()
        for _ in range(3):
            other.clock.pass_by(29)
            assert await holder.keeps(grant)
            assert (await other.ask()).status == "busy"
        other.clock.pass_by(31)
        assert (await other.ask()).status == "granted"
        assert not await holder.keeps(grant)


async def test_an_unobserved_renewal_still_saves_the_lease(dynamodb_url: str) -> None:
    """The thief has watched long enough, and the record changes between its look and its writing."""
    async with replicas(dynamodb_url, "web-1", "web-2") as (holder, thief):
        grant = await holder.take()
        await thief.ask()
        thief.clock.pass_by(31)
        taking = thief._take

        async def after_a_renewal(request: AcquireRequest, token: int, seen: Row | None, ends_at: float) -> None:
            assert await holder.keeps(grant)
            await taking(request, token, seen, ends_at)

        thief._take = after_a_renewal  # type: ignore[method-assign]
        assert (await thief.ask()).status == "busy"
        assert await holder.keeps(grant)


async def test_one_of_two_watchers_gets_the_lease(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2", "web-3") as (dead, first, second):
        await dead.take()
        for heir in (first, second):
            await heir.ask()
            heir.clock.pass_by(31)
        assert [(await heir.ask()).status for heir in (first, second)] == ["granted", "busy"]


async def test_wall_clocks_that_are_wrong_by_an_hour_steal_nothing(dynamodb_url: str) -> None:
    wrong = {"behind": Clock(wall=-3600.0), "ahead": Clock(wall=3600.0)}
    async with replicas(dynamodb_url, "behind", "ahead", clocks=wrong) as (behind, ahead):
        grant = await behind.take()
        assert (await ahead.ask()).status == "busy"
        assert await behind.gives_back(grant) == "released"
        grant = await ahead.take()
        assert (await behind.ask()).status == "busy"
        behind.clock.pass_by(31)
        assert (await behind.ask()).status == "granted"
        assert not await ahead.keeps(grant)


@pytest.fixture
def bounded_url(dynamodb_endpoint: str) -> str:
    """This URL states that no two clocks differ by more than two seconds."""
    return fresh_table(dynamodb_endpoint, max_clock_skew="2")


async def test_with_a_stated_bound_on_the_clocks_a_newcomer_takes_over_at_once(bounded_url: str) -> None:
    async with replicas(bounded_url, "web-1", "web-2") as (dead, newcomer):
        await dead.take()
        newcomer.clock.pass_by(31)
        answer = await newcomer.ask()
        assert answer.status == "busy"
        assert 0 < answer.retry_after <= 1
        newcomer.clock.pass_by(1)
        assert (await newcomer.ask()).status == "granted"


@pytest.fixture
def loosely_bounded_url(dynamodb_endpoint: str) -> str:
    """By so much that a slow machine does not matter."""
    return fresh_table(dynamodb_endpoint, max_clock_skew="60")


async def test_clocks_that_differ_by_the_stated_bound_steal_nothing(loosely_bounded_url: str) -> None:
    clocks = {"behind": Clock(wall=-28.0), "ahead": Clock(wall=26.0)}
    async with replicas(loosely_bounded_url, "behind", "ahead", clocks=clocks) as (behind, ahead):
        grant = await behind.take(ttl=1.0)
        ahead.clock.pass_by(0.5)
        assert (await ahead.ask()).status == "busy"
        assert await behind.keeps(grant)
