"""Two standbys in a row take over, one after the other, while a lease is held and waited for."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from interlock import AsyncInterlock
from interlock.coordination.engine import queue as wait_queue
from interlock.coordination.lease.grant import AsyncGrant
from interlock.schema import whole_schema
from support.cascade import Chain, three_servers
from support.lease_engine import until
from support.postgres import execute
from support.replication import promote, wait_caught_up
from support.sql_leases import acquire, as_asked, ask, may_write, step_clock

pytestmark = pytest.mark.exhaustive

WAITERS = "SELECT count(*) FROM interlock.waiters_v1(%s)"


@pytest.fixture
def chain() -> Iterator[Chain]:
    with three_servers() as chain:
        execute(chain.first, whole_schema("interlock"))
        wait_caught_up(chain.third, chain.first)
        yield chain


async def renewed(*grants: AsyncGrant) -> None:
    """Return when each holder has confirmed one more renewal, and so the timeline."""
    before = [grant.trusted_until for grant in grants]
    await until(lambda: all(grant.trusted_until > was for grant, was in zip(grants, before, strict=True)))


async def after_the_delay(url: str, turn: "asyncio.Task[AsyncGrant]", *, ahead: float) -> AsyncGrant:
    """Returns the grant that a waiter gets after the delay of the new primary."""
    assert ask(url, "feeds", ttl=60).status == "held back"
    assert ask(url, "another", ttl=60).status == "held back"
    assert not turn.done()
    step_clock(url, ahead)
    return await turn


async def test_each_server_that_takes_over_ends_every_grant_and_goes_on_above_it(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first server disappears without a message; the second refuses writes but keeps its connections."""
    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 1.0)  # no notification reaches the waiter
    async with AsyncInterlock(chain.url, request_timeout=2) as one, AsyncInterlock(chain.url, request_timeout=2) as two:

        def wait(locks: AsyncInterlock, name: str = "feeds") -> "asyncio.Task[AsyncGrant]":
            return asyncio.create_task(locks.lease(name, ttl=60, renew_every=0.5).acquire(timeout=100).__aenter__())

        first = await wait(one)
        waiting = wait(two)
        await until(lambda: execute(chain.first, WAITERS, "feeds") == [(1,)])
        await renewed(first)
        wait_caught_up(chain.third, chain.first)

        chain.lose_first()
        await asyncio.to_thread(promote, chain.second)
        assert await first.wait_lost() == "failover"
        second = await after_the_delay(chain.second, waiting, ahead=60)
        waiting = wait(one)
        await until(lambda: execute(chain.second, WAITERS, "feeds") == [(1,)])
        await renewed(second)
        await asyncio.to_thread(wait_caught_up, chain.third, chain.second)

        chain.freeze_third()
        forgotten = acquire(chain.second, "reports", ttl=60)
        chain.close_second()
        await asyncio.to_thread(promote, chain.third)
        assert await second.wait_lost() == "failover"
        third = await after_the_delay(chain.third, waiting, ahead=120)
        assert first.token < second.token < third.token
        assert forgotten.token < acquire(chain.third, "reports", ttl=60).token
        async with await psycopg.AsyncConnection.connect(chain.third) as connection:
            await third.guard(connection)
        assert [may_write(chain.third, as_asked(grant)) for grant in (first, second, third)] == [False, False, True]
        assert not await second.release()

        waiting = wait(two)
        await until(lambda: execute(chain.third, WAITERS, "feeds") == [(1,)])
        await renewed(third)
        assert await third.release()
        assert (await waiting).token > third.token
