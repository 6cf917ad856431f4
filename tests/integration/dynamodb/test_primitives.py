"""Primitives on DynamoDB's leases: semaphores, elections, membership, several leases, once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from interlock import AsyncInterlock, errors
from support.dynamodb import fresh_table


@pytest.fixture
async def locks(dynamodb_url: str) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(dynamodb_url, replica="one") as locks:
        yield locks


@pytest.fixture
async def others(dynamodb_url: str) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(dynamodb_url, replica="two") as locks:
        yield locks


async def test_as_many_hold_a_slot_as_there_are(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    inside = most = 0
    together = asyncio.Event()

    async def work(root: AsyncInterlock) -> None:
        nonlocal inside, most
        async with root.lease("openai", slots=2, ttl=10):
            inside += 1
            most = max(most, inside)
            if inside == 2:
                together.set()
            await together.wait()  # the first for the second
            await asyncio.sleep(0.02)
            inside -= 1

    await asyncio.gather(*(work(root) for root in (locks, others) * 4))
    assert most == 2


async def test_the_next_leader_comes_when_the_last_one_has_stepped_down(
    locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    tokens = []
    async for term in locks.lease("scheduler", ttl=10).terms():
        async with term:
            tokens.append(term.token)
        break
    async for term in others.lease("scheduler", ttl=10).terms():
        async with term:
            tokens.append(term.token)
        break
    assert tokens == sorted(set(tokens))


async def test_members_are_listed_with_their_metadata(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    async with locks.join("workers", id="a", metadata={"zone": 1}), others.join("workers", id="b"):
        found = {member.id: member for member in await others.members("workers")}
        assert set(found) == {"a", "b"}
        assert (found["a"].holder, found["a"].metadata) == ("one", {"zone": 1})
    assert await locks.members("workers") == []


async def test_several_are_held_together_in_whichever_order_they_are_given(
    locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    inside = 0

    async def work(root: AsyncInterlock, *names: str) -> None:
        nonlocal inside
        for _ in range(3):
            async with root.leases(*names, ttl=10):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    await asyncio.gather(work(locks, "a", "b"), work(others, "b", "a"))


@pytest.fixture
def recording_url(ministack: str, aws_credentials: None) -> str:
    """This one of the two engines has transactions."""
    return fresh_table(ministack)


async def test_once_runs_in_one_process_and_all_get_the_result(recording_url: str) -> None:
    calls = []

    async def charge() -> dict[str, int]:
        calls.append(1)
        return {"receipt": 7}

    async with AsyncInterlock(recording_url) as one, AsyncInterlock(recording_url) as two:
        told = await asyncio.gather(*(root.once("charge:1", charge) for root in (one, two, one, two)))
    assert told == [{"receipt": 7}] * 4
    assert len(calls) == 1


@pytest.fixture
def simple_url(dynalite: str, aws_credentials: None) -> str:
    return fresh_table(dynalite)


async def test_without_transactions_nothing_is_run_that_could_not_be_recorded(simple_url: str) -> None:
    async def charge() -> int:
        raise AssertionError

    async with AsyncInterlock(simple_url) as locks:
        with pytest.raises(errors.NotSupported, match="transact_write_items"):
            await locks.once("charge:1", charge)
