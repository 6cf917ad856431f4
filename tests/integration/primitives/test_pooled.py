"""Primitives through PgBouncer in transaction mode, where waiters cannot be notified."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from interlock import AsyncGrant, AsyncInterlock
from support.pooler import pooled


@pytest.fixture
def pooled_url(interlock_url: str) -> Iterator[str]:
    with pooled(interlock_url, "transaction", pool_size=3, in_turn=True) as url:
        yield url


@pytest.fixture
async def locks(pooled_url: str) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(pooled_url, replica="one") as locks:
        yield locks


async def test_slots_are_shared_and_waited_for(locks: AsyncInterlock) -> None:
    inside = most = 0
    shared = asyncio.Event()

    async def work() -> None:
        nonlocal inside, most
        async with locks.lease("openai", slots=2):
            inside += 1
            most = max(most, inside)
            if inside == 2:
                shared.set()
            await shared.wait()
            inside -= 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(work() for _ in range(6)))
    assert most == 2


async def test_once_every_members_and_terms(locks: AsyncInterlock) -> None:
    ran = asyncio.Event()

    async def work() -> int:
        return 7

    @locks.every("100ms", "sweep")
    async def sweep(grant: AsyncGrant) -> None:
        ran.set()

    assert [await locks.once("boot", work), await locks.once("boot", work)] == [7, 7]
    async with locks.join("workers", id="a"), sweep, locks.leases("x", "y"), locks.shared("catalog", readers=3).read():
        assert [member.id for member in await locks.members("workers")] == ["a"]
        await ran.wait()
    async for term in locks.lease("scheduler").terms():
        async with term:
            break
    assert await locks.lease("scheduler").holders() == []
