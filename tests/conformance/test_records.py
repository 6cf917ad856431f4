"""Records that holders write, and the list of leases."""

from typing import Any

import pytest

from conformance.store_calls import SOON, acquire_request, grant, grant_after_expiry, release_grant
from interlock.coordination.backends.choice import OpenStore


def able(store: OpenStore, *methods: str) -> Any:
    if not all(hasattr(store, method) for method in methods):
        pytest.skip("this store does not do that yet")
    return store


@pytest.mark.guarantee("record", "a holder's record is kept")
async def test_a_holders_record_is_read_by_all(store: OpenStore, other: OpenStore) -> None:
    records, elsewhere = able(store, "read", "write"), able(other, "read")
    assert await elsewhere.read("charge:1") is None
    got = await grant(store)
    assert await records.write("charge:1", '{"paid": true}', got) is True
    first = await elsewhere.read("charge:1")
    assert (first.key, first.token) == ("charge:1", got.token)
    assert first.value.replace(" ", "") == '{"paid":true}'
    assert await records.write("charge:1", "[]", got) is True
    second = await elsewhere.read("charge:1")
    assert second.value == "[]"
    assert second.written_at >= first.written_at


@pytest.mark.guarantee("record", "a holder that lost its lease writes no record")
async def test_a_grant_that_was_taken_over_writes_nothing(store: OpenStore, other: OpenStore) -> None:
    records, elsewhere = able(store, "read", "write"), able(other, "write")
    old = await grant(store, ttl=SOON)
    new = await grant_after_expiry(other)
    assert await elsewhere.write("charge:1", "2", new) is True
    assert await records.write("charge:1", "1", old) is False
    assert await records.write("charge:1", "3", new._replace(grant_id=old.grant_id)) is False
    assert (await records.read("charge:1")).value == "2"
    await release_grant(other, new)
    assert await elsewhere.write("charge:1", "4", new) is False


@pytest.mark.guarantee("record", "a record outlives its lease's row")
async def test_a_record_stays_when_its_lease_is_deleted(store: OpenStore) -> None:
    records = able(store, "read", "write")
    got = await grant(store)
    assert await records.write("charge:1", "1", got) is True
    await release_grant(store, got)
    await store.sweep(-1.0)
    assert (await records.read("charge:1")).value == "1"


@pytest.mark.guarantee("record", "old records can be deleted")
async def test_records_are_deleted_by_age_and_by_the_beginning_of_their_keys(store: OpenStore) -> None:
    records = able(store, "read", "write", "delete_records")
    got = await grant(store)
    for key in ("bill:1", "bill:2", "bil", "BILL:1"):
        assert await records.write(key, "1", got) is True
    assert await records.delete_records("bill:", 3600.0) == 0
    assert await records.delete_records("bill:", -1.0) == 2
    found = [await records.read(key) for key in ("bill:1", "bill:2", "bil", "BILL:1")]
    assert [record and record.key for record in found] == [None, None, "bil", "BILL:1"]


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee("listing", "holders can be listed")
async def test_held_leases_are_listed_by_the_beginning_of_their_names(store: OpenStore) -> None:
    listing = able(store, "held")
    names = ["b:2", "a:1", "b:1", "b%", "B:1"]
    for name in names:
        assert (await store.acquire([acquire_request(name, metadata='{"at": "home"}')]))[0].status == "granted"
    await release_grant(store, await grant(store, "b:0"))
    await grant(store, "b:9", ttl=SOON)
    await release_grant(store, await grant_after_expiry(store, "b:9"))
    found = await listing.held("b:")
    assert [held.name for held in found] == ["b:1", "b:2"]
    assert {held.holder for held in found} == {"one"}
    assert all(0 < held.remaining <= 30 and held.acquired_at > 1_600_000_000 for held in found)
    assert found[0].metadata.replace(" ", "") == '{"at":"home"}'
    assert [held.name for held in await listing.held("")] == sorted(names)
