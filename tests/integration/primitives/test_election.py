"""Elections: one replica leads, the others wait; after a term comes another."""

import asyncio
import threading
from uuid import UUID

import pytest

from interlock import AsyncInterlock, Interlock, errors
from interlock.coordination.primitives.election import AsyncElection, AsyncTerm
from support.lease_engine import holder, queue, sessions, take_away, until
from support.postgres import execute


async def campaign(locks: AsyncInterlock, led: "asyncio.Queue[AsyncTerm]", *, ttl: float = 30) -> None:
    """Lead in one term after another."""
    async for term in locks.lease("scheduler", ttl=ttl).terms():
        async with term:
            led.put_nowait(term)
            await asyncio.Event().wait()


def leads(election: AsyncElection) -> bool:
    return election.is_leader


async def end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_lost_term_is_followed_by_another(locks: AsyncInterlock, interlock_url: str) -> None:
    led: asyncio.Queue[AsyncTerm] = asyncio.Queue()
    task = asyncio.create_task(campaign(locks, led, ttl=4))
    first = await led.get()
    take_away(interlock_url, "scheduler")
    assert await first.wait_lost() == "refused"
    execute(interlock_url, "UPDATE interlock.lease SET expires_at = now() WHERE name = 'scheduler'")
    second = await led.get()
    assert second.token > first.token
    await end(task)
    assert not second.lost
    assert second.is_released


async def test_the_lease_is_released_only_after_the_block_has_ended(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    election = locks.lease("scheduler").terms()
    led, ending, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    leads_by: list[UUID] = []

    async def lead() -> None:
        async for term in election:
            async with term:
                leads_by.append(term.grant_id)
                led.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ending.set()
                    await ended.wait()

    task = asyncio.create_task(lead())
    await led.wait()
    queue_of_others: asyncio.Queue[AsyncTerm] = asyncio.Queue()
    follower = asyncio.create_task(campaign(others, queue_of_others))
    await until(lambda: queue(interlock_url, "scheduler"))
    assert election.is_leader
    assert election.step_down()
    await ending.wait()
    async with locks.lease("other"):  # releases of one process are sent one after the other
        pass
    assert holder(interlock_url, "scheduler") == leads_by[0]
    ended.set()
    await queue_of_others.get()
    assert not leads(election)
    await until(lambda: queue(interlock_url, "scheduler"))  # and the first candidate waits for its next term
    assert not election.step_down()
    await end(follower)
    await until(lambda: election.is_leader)
    await end(task)


async def test_is_leader_sends_no_request(locks: AsyncInterlock, interlock_url: str) -> None:
    election = locks.lease("scheduler", ttl=30).terms()
    assert not leads(election)
    async for term in election:
        execute(interlock_url, "ALTER TABLE interlock.lease RENAME TO hidden")
        assert election.is_leader
        execute(interlock_url, "ALTER TABLE interlock.hidden RENAME TO lease")
        async with term:
            leader = await election.leader()
            assert leader is not None
            assert (leader.holder, leader.token) == ("one", term.token)
        assert not leads(election)
        break
    assert await election.leader() is None


async def test_an_error_of_the_block_is_raised(locks: AsyncInterlock, interlock_url: str) -> None:
    async def lead(term: AsyncTerm) -> None:
        _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        await locks.lease("scheduler").terms().run(lead)
    grant = await locks.lease("scheduler").try_acquire()
    assert grant is not None


async def test_the_loss_of_the_term_is_not_an_error_but_that_of_another_lease_is(
    locks: AsyncInterlock,
) -> None:
    tokens = []
    async for term in locks.lease("scheduler").terms():
        async with term:
            tokens.append(term.token)
            if len(tokens) == 3:
                break
            term.step_down()
            term.check()
    assert tokens == sorted(set(tokens))

    async def lead(term: AsyncTerm) -> None:
        raise errors.LeaseLost("another one", name="feeds", token=term.token)

    with pytest.raises(errors.LeaseLost, match="another one"):
        await locks.lease("scheduler").terms().run(lead)


async def test_a_callers_cancellation_ends_the_campaign(locks: AsyncInterlock, interlock_url: str) -> None:
    led: asyncio.Queue[AsyncTerm] = asyncio.Queue()
    task = asyncio.create_task(campaign(locks, led))
    term = await led.get()
    term.step_down()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await locks.lease("scheduler").holders() == []


async def test_callbacks(locks: AsyncInterlock) -> None:
    election = locks.lease("scheduler").terms()
    calls: list[str] = []
    enough = asyncio.Event()

    async def lead(term: AsyncTerm) -> None:
        calls.append("leads")
        if len(calls) > 4:
            enough.set()
        if len(calls) % 4 == 1:
            election.step_down()
            await asyncio.Event().wait()

    task = asyncio.create_task(election.run(lead, deposed=lambda: calls.append("deposed")))
    await enough.wait()
    await end(task)
    assert calls[:6] == ["leads", "deposed"] * 3


async def test_with_slots_several_lead(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    elections = [aiter(root.lease("shard", slots=2).terms()) for root in (locks, others)]
    terms = [await anext(election) for election in elections]
    assert len({term.name for term in terms}) == 2


def test_in_threads(sync_locks: Interlock, interlock_url: str) -> None:
    election = sync_locks.lease("scheduler").terms()
    tokens: list[int] = []
    asked = threading.Event()

    def step_down() -> None:
        assert election.step_down()
        asked.set()

    for term in election:
        assert election.is_leader
        with term:
            tokens.append(term.token)
            if len(tokens) == 3:
                break
            thread = threading.Thread(target=step_down)
            thread.start()
            thread.join()
            assert asked.is_set()
            term.check()
            raise AssertionError("it was asked to step down")
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 3
    assert not election.is_leader
    assert election.leader() is None


def test_callbacks_in_threads(sync_locks: Interlock) -> None:
    calls: list[str] = []

    class Enough(Exception):
        pass

    def lead(term: object) -> None:
        calls.append("leads")
        if len(calls) > 2:
            raise Enough

    with pytest.raises(Enough):
        sync_locks.lease("scheduler").terms().run(lead, deposed=lambda: calls.append("deposed"))
    assert calls == ["leads", "deposed", "leads", "deposed"]


async def test_an_election_ends_when_the_root_object_is_closed(locks: AsyncInterlock, interlock_url: str) -> None:
    led = 0

    async def lead(term: AsyncTerm) -> None:
        nonlocal led
        led += 1
        await locks.close()

    with pytest.raises(errors.ConfigurationError, match="closed"):
        await locks.lease("scheduler").terms().run(lead)
    assert led == 1
    await until(lambda: sessions(interlock_url) == {})
