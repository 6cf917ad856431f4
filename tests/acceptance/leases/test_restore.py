"""A backup is restored to an earlier moment, while leases that were granted since then are held and waited for.

Clients find the restored server at the address of the old one; only the timeline shows the difference.
"""

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
from support.lease_engine import until
from support.postgres import execute
from support.proxy import cable_to
from support.restorable_server import Restorable, restorable_server
from support.sql_leases import acquire, as_asked, ask, may_write, release, step_clock

WAITERS = "SELECT count(*) FROM interlock.waiters_v1('feeds')"


@pytest.fixture
def server() -> Iterator[Restorable]:
    with restorable_server() as server:
        execute(server.url, whole_schema("interlock"))
        yield server


async def renewed(*grants: AsyncGrant) -> None:
    """Return when each holder has confirmed one more renewal, and so the timeline."""
    before = [grant.trusted_until for grant in grants]
    await until(lambda: all(grant.trusted_until > was for grant, was in zip(grants, before, strict=True)))


@pytest.mark.exhaustive
async def test_later_grants_are_lost_and_every_new_token_is_above_the_lost_ones(
    server: Restorable,
) -> None:
    async with AsyncInterlock(server.url) as locks:

        async def grant(name: str) -> AsyncGrant:
            return await locks.lease(name, ttl=60, renew_every=0.5).acquire(timeout=50)

        await (await grant("feeds")).release()
        kept, first = await grant("kept"), await grant("again")
        await asyncio.to_thread(server.back_up)
        await renewed(kept)
        moment = server.now()
        await first.release()
        since = [await grant("feeds"), await grant("again"), await grant("new")]
        tokens = {one.name: one.token for one in [kept, *since]}
        await renewed(kept, *since)

        await asyncio.to_thread(server.restore, moment)
        assert not any(may_write(server.url, as_asked(one)) for one in since)
        assert [await one.wait_lost() for one in [kept, *since]] == ["failover"] * 4
        assert {ask(server.url, name, ttl=60).status for name in (*tokens, "another")} == {"held back"}

        step_clock(server.url, 60)
        current = [await grant(name) for name in tokens]
        assert all(one.token > tokens[one.name] for one in current)
        assert not any(may_write(server.url, as_asked(one)) for one in [kept, first, *since])
        assert not await since[0].release()
        async with await psycopg.AsyncConnection.connect(server.url) as connection:
            for one in current:
                await one.guard(connection)
            with pytest.raises((errors.LeaseLost, errors.GuardRefused)):
                await since[0].guard(connection)


async def test_a_lease_is_not_granted_while_an_uninformed_holder_trusts_it(server: Restorable, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "both")
    release(server.url, acquire(server.url, "feeds", ttl=5))
    server.back_up()
    moment = server.now()
    with cable_to(server.url) as (cable, through):
        async with AsyncInterlock(through) as cut_off, AsyncInterlock(server.url) as other:
            lost = await cut_off.lease("feeds", ttl=5).acquire(timeout=20)
            waiting = asyncio.create_task(other.lease("feeds", ttl=5).acquire(timeout=50).__aenter__())
            await until(lambda: execute(server.url, WAITERS) == [(1,)])
            recorder.granted(lost)
            cable.cut()
            await asyncio.to_thread(server.restore, moment)
            recorder.trusted(lost)
            current = await waiting
            recorder.granted(current)
            await current.release()
            cable.restore()
    events = recorded(tmp_path)
    assert counts(events)["granted"] == 2
    assert violations(events) == []
