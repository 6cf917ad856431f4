"""The holder of a lease, by the store's answers."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from conformance.store_calls import SOON, Got, acquire_request, answer, grant, grant_after_expiry, release_grant
from interlock.coordination.backends.choice import OpenStore
from interlock.coordination.engine.batch import Batcher
from interlock.errors import InterlockError
from interlock.stores.leases import AcquireAnswer, AcquireRequest

lease = "lease"


@pytest.mark.guarantee(lease, "one holder at a time")
async def test_one_of_many_concurrent_requests_is_granted(opened: Callable[[str], OpenStore]) -> None:
    stores = [opened(f"replica {number}") for number in range(5)]
    for _ in range(20):
        asks = [acquire_request() for _ in stores]
        answers = await asyncio.gather(*map(answer, stores, asks))
        winners = [place for place, got in enumerate(answers) if got.status == "granted"]
        assert len(winners) == 1
        (winner,) = winners
        released = await release_grant(stores[winner], Got("feeds", answers[winner].token, asks[winner].grant_id, 30.0))
        assert released.status == "released"


@pytest.mark.guarantee(lease, "one holder at a time")
async def test_a_held_lease_is_not_granted_and_its_holder_is_named(store: OpenStore, other: OpenStore) -> None:
    await grant(store)
    busy = await answer(other, acquire_request())
    assert (busy.status, busy.holder) == ("busy", "one")
    assert 0 < busy.retry_after <= 30


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee(lease, "an expired lease can be taken")
async def test_a_lease_that_is_not_renewed_goes_to_the_next_request(store: OpenStore, other: OpenStore) -> None:
    old = await grant(store, ttl=SOON)
    new = await grant_after_expiry(other)
    assert new.token > old.token
    assert (await store.renew([old], 30.0)).lost == [0]
    assert (await release_grant(store, old)).status == "lost"
    assert (await other.renew([new], 30.0)).lost == []


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.guarantee(lease, "an expired lease is not revived")
async def test_an_expired_lease_cannot_be_renewed_even_if_it_is_free(store: OpenStore) -> None:
    got = await grant(store, ttl=SOON)
    until = (await answer(store, acquire_request())).retry_after
    await asyncio.sleep(until + 0.01)
    assert (await store.renew([got], 30.0)).lost == [0]


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee(lease, "tokens only grow")
async def test_tokens_grow_over_release_expiry_and_new_connections(
    store: OpenStore, opened: Callable[[str], OpenStore]
) -> None:
    tokens = []
    for _ in range(5):
        got = await grant(store)
        tokens.append(got.token)
        await release_grant(store, got)
    tokens.append((await grant(store, ttl=SOON)).token)
    await store.close()
    anew = opened("anew")
    tokens.append((await grant_after_expiry(anew)).token)
    assert tokens == sorted(set(tokens))


@pytest.mark.guarantee(lease, "tokens only grow, also when a name was forgotten")
async def test_tokens_grow_over_a_sweep_that_forgets_the_name(store: OpenStore) -> None:
    got = await grant(store)
    await release_grant(store, got)
    assert await store.sweep(-1.0) >= 1
    assert (await grant(store)).token > got.token


@pytest.mark.exhaustive(beyond=3)
@pytest.mark.guarantee(lease, "no grant acts for another")
@pytest.mark.parametrize("part", ["name", "token", "grant_id"])
async def test_a_grant_that_differs_in_one_part_touches_nothing(store: OpenStore, part: str) -> None:
    got = await grant(store)
    other: dict[str, Any] = {"name": "feed", "token": got.token - 1, "grant_id": uuid4()}
    forged = got._replace(**{part: other[part]})
    assert (await store.renew([forged], 30.0)).lost == [0]
    assert (await release_grant(store, forged)).status == "lost"
    assert (await answer(store, acquire_request())).status == "busy"
    assert (await store.renew([got], 30.0)).lost == []


@pytest.mark.guarantee(lease, "a request that is sent again finds its own grant")
async def test_a_request_that_is_sent_again_finds_its_own_grant(store: OpenStore) -> None:
    ask = acquire_request()
    first = await answer(store, ask)
    again = await answer(store, ask)
    assert (again.status, again.token) == ("granted", first.token)
    assert 0 < again.remaining <= first.remaining
    assert (await answer(store, acquire_request())).status == "busy"


@pytest.mark.guarantee(lease, "a request that is sent again finds its own grant")
async def test_a_request_that_is_sent_twice_at_once_is_granted_once(store: OpenStore, other: OpenStore) -> None:
    ask = acquire_request()
    first, second = await asyncio.gather(answer(store, ask), answer(other, ask))
    assert first.status == second.status == "granted"
    assert first.token == second.token


@pytest.mark.guarantee(lease, "renewals of one process share a request")
async def test_a_batch_of_renewals_tells_the_lost_from_the_kept(store: OpenStore) -> None:
    kept = [await grant(store, f"name {number}") for number in range(5)]
    lost = await grant(store, "lost")
    await release_grant(store, lost)
    batch = [*kept[:2], lost, *kept[2:], kept[0]._replace(grant_id=uuid4())]
    renewed = await store.renew(batch, 5.0)
    assert list(renewed.lost) == [2, 6]
    assert not renewed.locked


@pytest.mark.guarantee(lease, "one bad request does not cost the others")
async def test_a_bad_request_fails_alone(store: OpenStore) -> None:
    """As the engine sends them: in one batch, and one by one if that fails."""
    lane: Batcher[AcquireRequest, AcquireAnswer] = Batcher(store.acquire, lambda *_: None, lambda *_: None)
    asks = [acquire_request("first"), acquire_request("bad", metadata='"\ud800"'), acquire_request("last")]
    first, bad, last = await asyncio.gather(*(lane.submit(ask) for ask in asks), return_exceptions=True)
    assert isinstance(bad, InterlockError | UnicodeError)
    assert not isinstance(first, BaseException)
    assert not isinstance(last, BaseException)
    assert [first[0].status, last[0].status] == ["granted", "granted"]


@pytest.mark.guarantee(lease, "one bad request does not cost the others")
async def test_a_name_that_is_asked_for_twice_in_a_batch_is_granted_once(store: OpenStore) -> None:
    asks = [acquire_request(), acquire_request("other"), acquire_request()]

    answers = [await answer(store, ask) for ask in asks]
    assert sorted(got.status for got in answers) == ["busy", "granted", "granted"]
    together = await store.acquire([acquire_request("new"), acquire_request("new"), acquire_request("newer")])
    assert [got.status for got in together].count("granted") == 2
