"""Handing a lease over to its first waiter: all or nothing, and afterwards it is clear which process holds it."""

import asyncio

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from support.lease_engine import count_calls, fail, holder, queued, stop_after, take_away, until
from support.postgres import execute

UNREACHABLE = errors.DatabaseUnreachable("It did not answer in time.")


async def test_the_lease_is_kept_without_waiters(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    assert await grant.hand_over() is False
    grant.check()
    assert holder(interlock_url) == grant.grant_id
    assert locks.metrics.snapshot().hand_overs == 0


@pytest.mark.parametrize("where", ["the same process", "another process"])
async def test_the_lease_goes_to_the_waiter(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, where: str
) -> None:
    grant = await locks.lease("feeds").acquire()
    waiter = await queued(locks if where == "the same process" else others, interlock_url)
    assert await grant.hand_over() is True
    assert (await waiter).token > grant.token
    assert not grant.lost, "the holder asked for it"
    assert grant.ended
    with pytest.raises(errors.LeaseLost):
        await grant.hand_over()
    figures = locks.metrics.snapshot()
    assert (figures.hand_overs, figures.releases) == (1, 0)


async def test_a_block_ends_without_error_after_a_hand_over(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    async with locks.lease("feeds") as grant:
        waiter = await queued(others, interlock_url)
        assert await grant.hand_over() is True
        mine = await waiter
    assert holder(interlock_url) == mine.grant_id
    async with locks.lease("other"):
        assert len(locks.engine()._held._owners) == 1


async def test_a_lost_lease_cannot_be_handed_over(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    take_away(interlock_url)
    with pytest.raises(errors.LeaseLost, match="another process may hold it"):
        await grant.hand_over()
    assert grant.lost


async def test_a_hand_over_waits_for_a_row_that_is_locked_for_a_moment(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, "hand_over")
    grant = await locks.lease("feeds").acquire()
    waiter = await queued(others, interlock_url)
    with psycopg.connect(interlock_url) as other:
        other.execute("SELECT FROM interlock.lease FOR UPDATE")
        hand_over = asyncio.create_task(grant.hand_over())
        await until(lambda: len(calls) > 1)
    assert await hand_over is True
    await waiter


@pytest.mark.parametrize("error", [UNREACHABLE, RecursionError("the stack is full")], ids=["unreachable", "stack"])
async def test_after_a_lost_answer_the_lease_is_not_trusted(
    locks: AsyncInterlock,
    others: AsyncInterlock,
    interlock_url: str,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    fail(monkeypatch, "hand_over", error, after=True)
    grant = await locks.lease("feeds").acquire()
    waiter = await queued(others, interlock_url)
    told: list[str] = []
    grant.on_lost(told.append)
    with pytest.raises(errors.LeaseLost):
        await grant.hand_over()
    assert (grant.lost, told) == (True, ["refused"])
    await waiter


async def test_a_lease_whose_hand_over_request_was_lost_is_released(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "hand_over", UNREACHABLE)
    grant = await locks.lease("feeds").acquire()
    waiter = await queued(others, interlock_url)
    with pytest.raises(errors.LeaseLost):
        await grant.hand_over()
    await waiter


async def test_a_hand_over_that_the_server_refuses_keeps_the_lease(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "hand_over", errors.StatementFailed("It was refused.", sqlstate="57014"))
    grant = await locks.lease("feeds").acquire()
    with pytest.raises(errors.StatementFailed):
        await grant.hand_over()
    grant.check()


async def test_a_cancelled_hand_over_still_completes(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_after(monkeypatch, "hand_over")
    grant = await locks.lease("feeds").acquire()
    waiter = await queued(others, interlock_url)
    hand_over = asyncio.create_task(grant.hand_over())
    await stop.reached()
    hand_over.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hand_over
    stop.go()
    await waiter
    await until(lambda: grant.ended)
    assert not grant.lost
    assert execute(interlock_url, "SELECT count(*) FROM interlock.lease") == [(1,)]


async def test_the_lease_is_not_trusted_while_another_may_hold_it(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = await locks.lease("feeds").acquire()
    waiter = await queued(others, interlock_url)
    stop = stop_after(monkeypatch, "hand_over")
    hand_over = asyncio.create_task(grant.hand_over())
    await stop.reached()
    assert (await waiter).token > grant.token
    assert grant.lost
    assert grant.remaining == 0
    with pytest.raises(errors.LeaseLost, match="being handed over"):
        grant.check()
    stop.go()
    assert await hand_over is True
    assert not grant.lost, "the holder asked for it"


async def test_the_lease_is_trusted_again_if_no_process_waited(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = await locks.lease("feeds").acquire()
    stop = stop_after(monkeypatch, "hand_over")
    hand_over = asyncio.create_task(grant.hand_over())
    await stop.reached()
    second = asyncio.create_task(grant.hand_over())
    await asyncio.sleep(0)
    assert grant.lost
    stop.go()
    assert await hand_over is False
    assert await second is False
    grant.check()


async def test_a_request_that_was_refused_changes_nothing(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = await locks.lease("feeds").acquire()
    fail(monkeypatch, "hand_over", errors.StatementFailed("It was refused.", sqlstate="XX000"))
    with pytest.raises(errors.StatementFailed):
        await grant.hand_over()
    grant.check()


async def test_a_renewal_during_a_hand_over_does_not_report_a_loss(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    handed = stop_after(monkeypatch, "hand_over")
    async with locks.lease("feeds", ttl=60) as grant:
        grant.on_lost(told.append)
        waiter = await queued(others, interlock_url)
        hand_over = asyncio.create_task(grant.hand_over())
        await handed.reached()
        renewed = stop_after(monkeypatch, "renew")
        locks.engine().renew_soon(grant)
        await renewed.reached()
        renewed.armed = False
        renewed.go()
        await until(lambda: len(renewed.calls) > 1)  # it was applied, and sent again
        handed.go()
        assert await hand_over is True
        await waiter
    assert told == []
    assert sum(locks.metrics.snapshot().losses.values()) == 0
