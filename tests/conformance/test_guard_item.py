"""Guarded writes, where the guard is an item of a transaction that is sent as a whole."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from conformance.store_calls import SOON, Got, acquire_request, grant, grant_after_expiry, release_grant
from interlock.coordination.backends.choice import GuardsByItem, OpenStore
from interlock.stores.dynamodb.address import parsed

guard = "guard"


@dataclass
class Writer:
    """A user's own client of the same table."""

    client: Any
    table: str

    async def write(self, store: OpenStore, got: Got) -> None:
        assert isinstance(store, GuardsByItem)
        row = {"lock_key": {"S": "written"}, "by": {"N": str(got.token)}}
        put = {"Put": {"TableName": self.table, "Item": row}}
        await self.client.transact_write_items(TransactItems=[store.guard_item(got), put])

    async def written(self) -> int | None:
        key = {"lock_key": {"S": "written"}}
        answer = await self.client.get_item(TableName=self.table, Key=key, ConsistentRead=True)
        return int(answer["Item"]["by"]["N"]) if "Item" in answer else None


@pytest.fixture
async def writer(url: str, store: OpenStore, request: pytest.FixtureRequest) -> AsyncIterator[Writer]:
    if not isinstance(store, GuardsByItem):
        request.node.user_properties.clear()  # what its guard does is shown by test_guard.py
        pytest.skip("this store's guard is put on a connection")
    await store.acquire([acquire_request("something")])
    address = parsed(url)
    async with get_session().create_client(
        "dynamodb", region_name=address.region, endpoint_url=address.endpoint
    ) as client:
        yield Writer(client, address.table)


@pytest.mark.guarantee(guard, "a holder's guarded transaction is committed")
async def test_a_guarded_write_of_the_holder_is_written(store: OpenStore, writer: Writer) -> None:
    got = await grant(store)
    await writer.write(store, got)
    assert await writer.written() == got.token


@pytest.mark.guarantee(guard, "a holder that lost its lease commits nothing")
async def test_a_guard_of_a_grant_that_was_taken_over_is_refused(
    store: OpenStore, other: OpenStore, writer: Writer
) -> None:
    stale = await grant(store, ttl=SOON)
    await grant_after_expiry(other)
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await writer.write(store, stale)
    assert await writer.written() is None


@pytest.mark.guarantee(guard, "a holder that lost its lease commits nothing")
@pytest.mark.parametrize("part", ["token", "grant_id"])
async def test_a_guard_that_names_another_grant_is_refused(store: OpenStore, writer: Writer, part: str) -> None:
    got = await grant(store)
    other: dict[str, Any] = {"token": got.token + 1, "grant_id": UUID(int=7)}
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await writer.write(store, got._replace(**{part: other[part]}))
    assert await writer.written() is None


@pytest.mark.guarantee(guard, "a holder that lost its lease commits nothing")
async def test_a_guard_of_a_released_grant_is_refused(store: OpenStore, writer: Writer) -> None:
    got = await grant(store)
    await release_grant(store, got)
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await writer.write(store, got)
    assert await writer.written() is None
