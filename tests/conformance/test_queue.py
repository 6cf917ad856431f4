"""Whose turn it is, by what a store answers and tells."""

import asyncio
from uuid import UUID

import pytest

from conformance.asking import answer, give_back, grant, wish
from interlock.coordination.backends.choice import OpenStore
from interlock.stores.leases import AcquireRequest, HandedGrant

queue = "lease"


class Ear:
    """Where a store tells whose turn it is. Keeps what was told before anybody listened."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[UUID | None] = asyncio.Queue()
        self.ended = asyncio.Event()

    @classmethod
    async def of(cls, store: OpenStore) -> "Ear":
        ear = cls()
        if not await store.subscribe(ear.hear, ear.ended.set):
            pytest.skip("this store cannot tell")
        return ear

    def hear(self, grant_id: UUID | None, handed: HandedGrant | None = None, /) -> None:
        self.told.put_nowait(grant_id)


async def queued(store: OpenStore, name: str = "feeds") -> AcquireRequest:
    ask = wish(name, wait=True)
    assert (await answer(store, ask)).status == "busy"
    return ask


@pytest.mark.guarantee(queue, "waiters are served in order of arrival")
async def test_a_release_names_the_first_in_the_queue_and_only_that_one_gets_it(
    store: OpenStore, other: OpenStore
) -> None:
    got = await grant(store)
    ear = await Ear.of(other)
    first, second = await queued(other), await queued(other)
    released = await give_back(store, got)
    assert (released.status, released.offered, released.elsewhere) == ("released", first.grant_id, True)
    assert await ear.told.get() == first.grant_id
    assert (await answer(other, second)).status == "busy"
    assert (await answer(store, wish())).status == "busy"
    assert (await answer(other, first)).status == "granted"


@pytest.mark.guarantee(queue, "waiters are woken by the release")
async def test_all_waiters_of_one_process_are_notified(store: OpenStore, other: OpenStore) -> None:
    names = [f"name {number}" for number in range(100)]
    grants = [await grant(store, name) for name in names]
    ear = await Ear.of(other)
    asks = {(await queued(other, name)).grant_id for name in names}
    for got in grants:
        await give_back(store, got)
    assert {await ear.told.get() for _ in names} == asks


@pytest.mark.guarantee(queue, "waiters are woken by the release")
async def test_a_waiter_of_the_same_process_is_returned_and_not_notified(store: OpenStore) -> None:
    got = await grant(store)
    ear = await Ear.of(store)
    ask = await queued(store)
    released = await give_back(store, got)
    assert (released.offered, released.elsewhere) == (ask.grant_id, False)
    assert ear.told.empty()


@pytest.mark.guarantee(queue, "a waiter that leaves the queue passes its position on")
async def test_a_waiter_that_leaves_passes_its_offer_on(store: OpenStore, other: OpenStore) -> None:
    got = await grant(store)
    ear = await Ear.of(other)
    first, second = await queued(other), await queued(other)
    assert (await give_back(store, got)).offered == first.grant_id
    assert await ear.told.get() == first.grant_id
    assert await other.abandon([first]) == [second.grant_id]
    assert (await answer(other, second)).status == "granted"


@pytest.mark.guarantee(queue, "a waiter that does not respond is skipped")
async def test_the_offer_of_a_waiter_that_does_not_come_goes_to_the_next(store: OpenStore, other: OpenStore) -> None:
    got = await grant(store)
    late, next_ = await Ear.of(other), await Ear.of(store)
    first, second = await queued(other), await queued(store)
    assert (await give_back(store, got)).offered == first.grant_id
    while second.grant_id not in await store.offer(["feeds"]):  # noqa: ASYNC110 - that the first is late, nobody tells
        await asyncio.sleep(0.05)
    assert [await late.told.get(), await late.told.get()] == [first.grant_id, None]
    assert next_.told.empty()
    assert (await answer(store, second)).status == "granted"
    assert (await answer(other, first)).status == "busy"


@pytest.mark.guarantee(queue, "a lease can be handed over")
async def test_a_lease_is_handed_over_only_to_a_waiter(store: OpenStore, other: OpenStore) -> None:
    got = await grant(store)
    assert (await store.hand_over([got]))[0].status == "kept"
    assert (await store.hand_over([got._replace(token=got.token - 1)]))[0].status == "lost"
    await Ear.of(other)
    ask = await queued(other)
    handed = (await store.hand_over([got]))[0]
    assert (handed.status, handed.offered) == ("released", ask.grant_id)
    assert (await answer(other, ask)).status == "granted"
    assert (await store.renew([got], 30.0)).lost == [0]
