"""Acquiring and releasing a lease: one holder at a time, in one process as well as in several."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from interlock import AsyncInterlock, errors
from support.lease_engine import holder, queue, take_away, until
from support.postgres import execute
from support.sql_leases import ask, release


async def test_no_connection_is_opened_before_it_is_needed(database_url: str) -> None:
    locks = AsyncInterlock("postgresql://nobody@nowhere.invalid/none")
    lease = locks.lease("feeds")
    assert (lease.name, lease.ttl) == ("feeds", 30)
    await locks.close()


async def test_the_attributes_of_a_grant(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds", ttl=30).acquire()
    assert (grant.name, grant.ttl, grant.schema) == ("feeds", 30, "interlock")
    assert holder(interlock_url) == grant.grant_id
    assert 28 < grant.remaining <= 29
    assert not grant.lost
    assert not grant.ended
    grant.check()
    assert f"token {grant.token}, held" in repr(grant)
    row = execute(interlock_url, "SELECT token, holder, ttl, metadata FROM interlock.lease")
    assert row == [(grant.token, "one", 30, None)]


async def test_a_ttl_may_be_a_timedelta_and_metadata_is_shown(locks: AsyncInterlock, interlock_url: str) -> None:
    await locks.lease("feeds", ttl=timedelta(minutes=2), metadata={"job": "nächtlich", "tries": [1, 2]}).acquire()
    rows = execute(interlock_url, "SELECT ttl, metadata FROM interlock.leases_v1('feeds')")
    assert rows == [(120, {"job": "nächtlich", "tries": [1, 2]})]


async def test_a_try_while_another_holds_the_lease_returns_none(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    grant = await locks.lease("feeds").try_acquire()
    assert grant is not None
    assert await others.lease("feeds").try_acquire() is None
    assert await grant.release() is True
    assert await others.lease("feeds").try_acquire() is not None


async def test_two_tasks_of_one_process_never_share_a_grant(locks: AsyncInterlock) -> None:
    lease = locks.lease("feeds")
    first, second = await asyncio.gather(lease.try_acquire(), lease.try_acquire())
    assert (first is None) != (second is None)
    grant = first or second
    assert grant is not None
    assert await lease.try_acquire() is None
    await grant.release()
    again = await lease.try_acquire()
    assert again is not None
    assert again.grant_id != grant.grant_id
    assert await grant.release() is False, "the release of the first does not release the second"
    again.check()
    assert await lease.try_acquire() is None


async def test_tokens_grow_over_release_and_expiry(locks: AsyncInterlock, interlock_url: str) -> None:
    tokens = []
    for _ in range(3):
        async with locks.lease("feeds") as grant:
            tokens.append(grant.token)
    expired = ask(interlock_url, "feeds", ttl=0.1)
    tokens.append(expired.token)
    async with locks.lease("feeds") as grant:
        tokens.append(grant.token)
    assert tokens == sorted(set(tokens))


async def test_a_grant_ends_with_its_block(locks: AsyncInterlock, interlock_url: str) -> None:
    async with locks.lease("feeds") as grant:
        assert holder(interlock_url) == grant.grant_id
    assert holder(interlock_url) is None
    assert grant.ended
    assert not grant.lost, "it was released"
    assert grant.remaining == 0
    with pytest.raises(errors.LeaseLost, match="it was released"):
        grant.check()


@pytest.mark.parametrize("timeout", [5, timedelta(seconds=5), None, 0])
async def test_an_acquisition_can_be_entered(
    locks: AsyncInterlock, interlock_url: str, timeout: float | timedelta | None
) -> None:
    async with locks.lease("feeds").acquire(timeout=timeout) as grant:
        assert holder(interlock_url) == grant.grant_id
    assert holder(interlock_url) is None


async def test_the_grant_of_a_try_can_be_entered(locks: AsyncInterlock, interlock_url: str) -> None:
    if grant := await locks.lease("feeds").try_acquire():
        async with grant:
            assert holder(interlock_url) == grant.grant_id
    assert holder(interlock_url) is None


async def test_the_lease_is_free_again_when_the_body_fails(locks: AsyncInterlock, interlock_url: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with locks.lease("feeds"):
            1 / 0  # noqa: B018
    assert holder(interlock_url) is None


async def test_a_lease_released_early_can_be_acquired_again_inside_the_block(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    lease = locks.lease("feeds")
    async with lease as first:
        await first.release()
        async with lease as second:
            assert second.token > first.token
            assert holder(interlock_url) == second.grant_id
        assert holder(interlock_url) is None
    assert await lease.try_acquire() is not None


async def test_a_second_release_does_nothing(locks: AsyncInterlock) -> None:
    grant = await locks.lease("feeds").acquire()
    assert await grant.release() is True
    assert await grant.release() is False


async def test_a_release_ends_only_its_own_grant(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    take_away(interlock_url)
    thief = holder(interlock_url)
    assert await grant.release() is False
    assert holder(interlock_url) == thief


async def test_python_and_sql_clients_respect_each_others_leases(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    assert ask(interlock_url, "feeds", ttl=30).status == "busy"
    await grant.release()
    answer = ask(interlock_url, "feeds", ttl=30)
    assert (answer.status, answer.token > grant.token) == ("granted", True)
    assert await locks.lease("feeds").try_acquire() is None
    assert release(interlock_url, answer) == "released"


async def test_a_task_that_would_wait_for_itself_gets_an_error(locks: AsyncInterlock, interlock_url: str) -> None:
    lease = locks.lease("feeds")
    async with lease as grant:
        with pytest.raises(errors.LeaseNested, match="wait for itself") as nested:
            async with locks.lease("feeds"):
                pass
        assert nested.value.name == "feeds"
        with pytest.raises(errors.LeaseNested):
            await lease.acquire(timeout=1)
        assert await lease.try_acquire() is None, "a try never waits"
        assert queue(interlock_url) == []
        grant.check()
    async with lease:
        pass


async def test_another_task_of_the_same_process_waits(locks: AsyncInterlock, interlock_url: str) -> None:
    lease = locks.lease("feeds")

    async def work() -> int:
        async with lease as grant:
            return grant.token

    async with lease as grant:
        working = asyncio.create_task(work())
        await until(lambda: queue(interlock_url))
        assert not working.done()
    assert await working > grant.token


async def test_an_asynchronous_generator_may_be_ended_by_another_task(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    lease = locks.lease("feeds")

    async def rows() -> AsyncGenerator[int, None]:
        async with lease:
            yield 1

    generator = rows()
    await asyncio.create_task(anext(generator))
    assert holder(interlock_url) is not None
    await asyncio.create_task(generator.aclose())
    assert holder(interlock_url) is None
