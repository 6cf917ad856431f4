"""Writes that are committed only while the grant is current."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from conformance.store_calls import SOON, Got, acquire_request, answer, grant, grant_after_expiry, release_grant
from conformance.stores import KINDS
from interlock.coordination.backends.choice import Guarding, OpenStore, StoreOptions, choose_database
from interlock.errors import GuardRefused, LeaseLost

guard = "guard"


@dataclass
class Guarded:
    """A grant that is trusted whatever happens: what is left is what the database says."""

    name: str
    token: int
    grant_id: UUID
    schema: str

    def check(self) -> None:
        pass


@dataclass
class Writer:
    """A user's own connection to the same database, with a table of theirs."""

    connection: Any
    guarding: Guarding
    schema: str

    def guard(self, got: Got) -> None:
        self.guarding.guard_sync(Guarded(got.name, got.token, got.grant_id, self.schema), self.connection)

    def write(self, got: Got) -> None:
        self.connection.execute(f"INSERT INTO written VALUES ({got.token})")

    def written(self) -> list[int]:
        rows = [row[0] for row in self.connection.execute("SELECT token FROM written").fetchall()]
        self.connection.rollback()
        return rows


@pytest.fixture
async def writer(kind: str, url: str, store: OpenStore, request: pytest.FixtureRequest) -> AsyncIterator[Writer]:
    connect = KINDS[kind].connect
    if connect is None:
        request.node.user_properties.clear()  # what its guard does is shown by test_guard_item.py
        pytest.skip("no connection can carry this store's guard")
    await store.acquire([acquire_request("something")])
    database = choose_database(url, StoreOptions(password=None, schema=None, pooler="detect", timeout=30.0))
    connection = connect(url)
    connection.execute("CREATE TABLE written (token BIGINT)")
    connection.commit()
    yield Writer(connection, database.guarding, database.schema)
    connection.close()


@pytest.mark.guarantee(guard, "a holder's guarded transaction is committed")
async def test_a_guarded_write_of_the_holder_is_committed(store: OpenStore, writer: Writer) -> None:
    got = await grant(store)
    writer.guard(got)
    writer.write(got)
    writer.guard(got)
    writer.connection.commit()
    assert writer.written() == [got.token]


@pytest.mark.guarantee(guard, "a holder that lost its lease commits nothing")
async def test_a_guard_of_a_grant_that_was_taken_over_is_refused(
    store: OpenStore, other: OpenStore, writer: Writer
) -> None:
    stale = await grant(store, ttl=SOON)
    await grant_after_expiry(other)
    writer.write(stale)
    writer.connection.rollback()
    with pytest.raises(LeaseLost):
        writer.guard(stale)
    writer.connection.rollback()
    assert writer.written() == []


@pytest.mark.guarantee(guard, "a holder that lost its lease commits nothing")
@pytest.mark.parametrize("part", ["token", "grant_id"])
async def test_a_guard_that_names_another_grant_is_refused(store: OpenStore, writer: Writer, part: str) -> None:
    got = await grant(store)
    other: dict[str, Any] = {"token": got.token + 1, "grant_id": UUID(int=7)}
    with pytest.raises(LeaseLost):
        writer.guard(got._replace(**{part: other[part]}))
    writer.connection.rollback()


@pytest.mark.guarantee(guard, "a holder that lost its lease commits nothing")
async def test_a_guard_of_a_released_grant_is_refused(store: OpenStore, writer: Writer) -> None:
    got = await grant(store)
    await release_grant(store, got)
    with pytest.raises(LeaseLost):
        writer.guard(got)
    writer.connection.rollback()


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee(guard, "the next holder waits for a guarded transaction")
async def test_an_expired_lease_is_not_granted_while_a_transaction_guards_it(
    store: OpenStore, other: OpenStore, writer: Writer
) -> None:
    got = await grant(store, ttl=3)
    until = (await answer(store, acquire_request())).retry_after
    writer.guard(got)
    await asyncio.sleep(until + 0.01)
    tried = []
    for _ in range(3):
        (reply,) = await other.acquire([acquire_request()])
        tried.append(reply.status)
    assert "granted" not in tried
    writer.write(got)
    writer.connection.commit()
    assert (await grant_after_expiry(other)).token > got.token
    assert writer.written() == [got.token]


@pytest.mark.guarantee(guard, "a release does not wait for a guarded transaction")
async def test_a_release_in_an_open_guarded_transaction_comes_back(
    store: OpenStore, other: OpenStore, writer: Writer
) -> None:
    got = await grant(store)
    writer.guard(got)
    writer.write(got)
    released = await release_grant(store, got)
    assert released.status in ("released", "locked")
    writer.connection.commit()
    if released.status == "locked":
        assert (await release_grant(store, got)).status == "released"
    assert (await grant(other)).token > got.token


@pytest.mark.guarantee(guard, "a guarded name delays no other")
async def test_another_name_is_granted_while_one_is_guarded(store: OpenStore, other: OpenStore, writer: Writer) -> None:
    writer.guard(await grant(store))
    (reply,) = await other.acquire([acquire_request("another")])
    assert reply.status == "granted"
    writer.connection.commit()


@pytest.mark.guarantee(guard, "the holder's renewals pass an open guard")
async def test_a_lease_is_renewed_while_it_is_guarded(store: OpenStore, writer: Writer) -> None:
    got = await grant(store)
    writer.guard(got)
    renewed = await store.renew([got], 30.0)
    assert not renewed.lost
    assert not renewed.locked
    writer.connection.commit()


@pytest.mark.guarantee(guard, "a guard outside a transaction is refused")
async def test_a_guard_in_autocommit_is_refused(store: OpenStore, writer: Writer, kind: str) -> None:
    got = await grant(store)
    KINDS[kind].autocommit(writer.connection)
    with pytest.raises(GuardRefused):
        writer.guard(got)
