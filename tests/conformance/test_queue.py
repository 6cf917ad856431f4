"""The queue of waiters, by the store's answers and notifications."""

import asyncio
from uuid import UUID

import pytest

from conformance.store_calls import acquire_request, answer, grant, release_grant
from interlock.coordination.backends.choice import OpenStore
from interlock.stores.leases import AcquireRequest, HandedGrant

queue = "lease"


class Notifications:
    """Receives a store's notifications, and keeps them until they are read."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[UUID | None] = asyncio.Queue()
        self.ended = asyncio.Event()

    @classmethod
    async def of(cls, store: OpenStore) -> "Notifications":
        notifications = cls()
        if not await store.subscribe(notifications.receive, notifications.ended.set):
            pytest.skip("this store has no notifications")
        return notifications

    def receive(self, grant_id: UUID | None, handed: HandedGrant | None = None, /) -> None:
        self.received.put_nowait(grant_id)


async def queued(store: OpenStore, name: str = "feeds") -> AcquireRequest:
    ask = acquire_request(name, wait=True)
    assert (await answer(store, ask)).status == "busy"
    return ask


@pytest.mark.guarantee(queue, "waiters are served in order of arrival")
async def test_a_release_names_the_first_in_the_queue_and_only_that_one_gets_it(
    store: OpenStore, other: OpenStore
) -> None:
    got = await grant(store)
    notifications = await Notifications.of(other)
    first, second = await queued(other), await queued(other)
    released = await release_grant(store, got)
    assert (released.status, released.offered, released.elsewhere) == ("released", first.grant_id, True)
    assert await notifications.received.get() == first.grant_id
    assert (await answer(other, second)).status == "busy"
    assert (await answer(store, acquire_request())).status == "busy"
    assert (await answer(other, first)).status == "granted"


@pytest.mark.guarantee(queue, "waiters are woken by the release")
async def test_all_waiters_of_one_process_are_notified(store: OpenStore, other: OpenStore) -> None:
    names = [f"name {number}" for number in range(100)]
    grants = [await grant(store, name) for name in names]
    notifications = await Notifications.of(other)
    asks = {(await queued(other, name)).grant_id for name in names}
    for got in grants:
        await release_grant(store, got)
    assert {await notifications.received.get() for _ in names} == asks


@pytest.mark.guarantee(queue, "waiters are woken by the release")
async def test_a_waiter_of_the_same_process_is_returned_and_not_notified(store: OpenStore) -> None:
    got = await grant(store)
    notifications = await Notifications.of(store)
    ask = await queued(store)
    released = await release_grant(store, got)
    assert (released.offered, released.elsewhere) == (ask.grant_id, False)
    assert notifications.received.empty()


@pytest.mark.guarantee(queue, "a waiter that leaves the queue passes its position on")
async def test_a_waiter_that_leaves_passes_its_offer_on(store: OpenStore, other: OpenStore) -> None:
    got = await grant(store)
    notifications = await Notifications.of(other)
    first, second = await queued(other), await queued(other)
    assert (await release_grant(store, got)).offered == first.grant_id
    assert await notifications.received.get() == first.grant_id
    assert await other.abandon([first]) == [second.grant_id]
    assert (await answer(other, second)).status == "granted"


@pytest.mark.guarantee(queue, "a waiter that does not respond is skipped")
async def test_the_offer_of_a_waiter_that_does_not_come_goes_to_the_next(store: OpenStore, other: OpenStore) -> None:
    got = await grant(store)
    late, next_ = await Notifications.of(other), await Notifications.of(store)
    first, second = await queued(other), await queued(store)
    assert (await release_grant(store, got)).offered == first.grant_id
    while second.grant_id not in await store.offer(["feeds"]):  # noqa: ASYNC110 - no signal for a late waiter
        await asyncio.sleep(0.05)
    assert [await late.received.get(), await late.received.get()] == [first.grant_id, None]
    assert next_.received.empty()
    assert (await answer(store, second)).status == "granted"
    assert (await answer(other, first)).status == "busy"


@pytest.mark.guarantee(queue, "a lease can be handed over")
async def test_a_lease_is_handed_over_only_to_a_waiter(store: OpenStore, other: OpenStore) -> None:
    got = await grant(store)
    assert (await store.hand_over([got]))[0].status == "kept"
    assert (await store.hand_over([got._replace(token=got.token - 1)]))[0].status == "lost"
    await Notifications.of(other)
    ask = await queued(other)
    handed = (await store.hand_over([got]))[0]
    assert (handed.status, handed.offered) == ("released", ask.grant_id)
    assert (await answer(other, ask)).status == "granted"
    assert (await store.renew([got], 30.0)).lost == [0]
