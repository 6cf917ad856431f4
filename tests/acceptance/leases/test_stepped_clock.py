"""The database's clock is set while leases are held: each holder stops trusting its lease at the next heartbeat."""

import asyncio

import pytest

from interlock import AsyncInterlock
from interlock.coordination.lease.grant import AsyncGrant
from support.sql_leases import row, step_clock
from support.waiting import eventually


async def renewed(url: str, grant: AsyncGrant) -> None:
    """Return after one more renewal."""
    before = row(url, grant.name)
    await asyncio.to_thread(eventually, lambda: row(url, grant.name).renewed_at != before.renewed_at)


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("seconds", [-3600, -2, 2])
async def test_a_clock_that_was_set_loses_every_lease_even_where_it_can_be_renewed(
    interlock_url: str, seconds: float
) -> None:
    async with AsyncInterlock(interlock_url) as locks:
        grants = [await locks.lease(name, ttl=8).acquire() for name in ("feeds", "reports")]
        await renewed(interlock_url, grants[0])
        step_clock(interlock_url, seconds)
        assert [await grant.wait_lost() for grant in grants] == ["clock", "clock"]


async def test_a_clock_that_was_set_forward_beyond_the_ttl_loses_the_lease(interlock_url: str) -> None:
    async with AsyncInterlock(interlock_url) as holder, AsyncInterlock(interlock_url) as other:
        grant = await holder.lease("feeds", ttl=4).acquire()
        step_clock(interlock_url, 3600)
        thief = await other.lease("feeds", ttl=4).try_acquire()
        assert thief is not None
        assert thief.token > grant.token
        assert await grant.wait_lost() in ("refused", "clock")
        assert not await grant.release()
        assert row(interlock_url, "feeds").grant_id == thief.grant_id
        assert not thief.lost


@pytest.mark.exhaustive
async def test_a_slewed_clock_loses_nothing(interlock_url: str) -> None:
    async with AsyncInterlock(interlock_url) as locks:
        grant = await locks.lease("feeds", ttl=4).acquire()
        for step in (0.04, 0.08, 0.12, 0.08, 0.04):
            step_clock(interlock_url, step)
            await renewed(interlock_url, grant)
        assert not grant.lost


@pytest.mark.exhaustive
async def test_after_the_clock_was_set_leases_are_granted_and_kept_as_before(interlock_url: str) -> None:
    async with AsyncInterlock(interlock_url) as locks:
        grant = await locks.lease("feeds", ttl=4).acquire()
        await renewed(interlock_url, grant)
        step_clock(interlock_url, -3600)
        assert await grant.wait_lost() == "clock"
        again = await locks.lease("feeds", ttl=4).acquire(timeout=20)
        assert again.token > grant.token
        for _ in range(3):
            await renewed(interlock_url, again)
        assert not again.lost
