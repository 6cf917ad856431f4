"""A lease that an operator broke: its holder is notified, stops and releases it, and then the next waiter has it."""

import asyncio
from uuid import uuid4

import pytest

from conformance.store_calls import acquire_request, answer, grant, release_grant
from conformance.test_queue import Notifications, queued
from interlock import AsyncInterlock, LeaseLost
from interlock.coordination.backends.choice import OpenStore, StoreOptions, choose_database

lease = "lease"


async def break_feeds(url: str) -> None:
    database = choose_database(url, StoreOptions(password=None, schema=None, pooler="detect", timeout=30.0))
    async with database.operator() as operator:
        assert await operator.break_lease("feeds", immediate=False, terminate=False, reason="stuck", by="ann@desk")


@pytest.mark.guarantee(lease, "the successor of a broken lease is served when its holder has stopped")
async def test_the_release_of_a_broken_lease_frees_it(store: OpenStore, other: OpenStore, url: str) -> None:
    got = await grant(store)
    await break_feeds(url)
    assert (await store.renew([got], 30.0)).lost == [0]
    assert (await answer(other, acquire_request())).status == "busy", "its holder may still be at work"
    for foreign in (got._replace(grant_id=uuid4()), got._replace(token=got.token - 1)):
        assert (await release_grant(other, foreign)).status == "lost"
        assert (await answer(other, acquire_request())).status == "busy"
    assert (await release_grant(store, got)).status == "lost"
    successor = await grant(other)
    assert successor.token > got.token
    assert (await release_grant(store, got)).status == "lost"
    assert (await other.renew([successor], 30.0)).lost == []


@pytest.mark.guarantee(lease, "the successor of a broken lease is served when its holder has stopped")
async def test_several_broken_leases_are_freed_together(store: OpenStore, other: OpenStore, url: str) -> None:
    got, second = await grant(store), await grant(store, "bills")
    await break_feeds(url)
    assert [released.status for released in await store.release([got, second])] == ["lost", "released"]
    await grant(other)
    await grant(other, "bills")


@pytest.mark.guarantee(lease, "the holder of a broken lease is told who broke it, and why")
async def test_the_next_renewal_of_a_broken_lease_names_the_operator(store: OpenStore, url: str) -> None:
    got, kept = await grant(store), await grant(store, "bills")
    await break_feeds(url)
    renewed = await store.renew([kept, got], 30.0)
    assert list(renewed.lost) == list(renewed.broken) == [1]
    assert renewed.broken[1].operator.endswith("ann@desk")
    assert renewed.broken[1].reason == "stuck"


@pytest.mark.guarantee(lease, "waiters are woken by the release")
async def test_the_release_of_a_broken_lease_names_the_first_in_the_queue(
    store: OpenStore, other: OpenStore, url: str
) -> None:
    got = await grant(store)
    notifications = await Notifications.of(other)
    ask = await queued(other)
    await break_feeds(url)
    assert notifications.received.empty()
    released = await release_grant(store, got)
    assert (released.status, released.offered, released.elsewhere) == ("lost", ask.grant_id, True)
    assert await notifications.received.get() == ask.grant_id
    assert (await answer(other, ask)).status == "granted"


@pytest.mark.guarantee(lease, "the successor of a broken lease is served when its holder has stopped")
async def test_a_waiter_has_it_as_soon_as_the_holders_block_has_ended(
    locks: AsyncInterlock, others: AsyncInterlock, url: str
) -> None:
    """The ttl is far longer than this test may take: only the release can serve the waiter."""
    held, is_broken, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    lost: list[LeaseLost] = []

    async def hold() -> None:
        try:
            async with locks.lease("feeds", ttl=300, renew_every=0.2):
                held.set()
                try:
                    await asyncio.sleep(600)
                finally:
                    is_broken.set()
                    await may_end.wait()
        except LeaseLost as error:
            lost.append(error)

    holder = asyncio.create_task(hold())
    await held.wait()
    waiter = asyncio.ensure_future(others.lease("feeds", ttl=300).acquire())
    await break_feeds(url)
    await is_broken.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiter), 0.5)
    may_end.set()
    await holder
    async with await waiter:
        pass
    assert lost[0].broken_by is not None
    assert lost[0].broken_by.endswith("ann@desk")
    assert lost[0].reason == "stuck"
    assert "was broken by" in str(lost[0])
    assert "ann@desk: stuck" in str(lost[0])
