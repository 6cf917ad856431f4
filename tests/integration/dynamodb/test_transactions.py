"""Writes in one transaction with the check of a grant: records, and users' own transactions."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from interlock import AsyncInterlock, Interlock, errors
from support.dynamodb import fresh_table, table_url
from support.dynamodb_stores import replicas
from support.http_faults import faulty


@pytest.fixture
def url(ministack: str, aws_credentials: None) -> str:
    """This one of the two engines has transactions."""
    return fresh_table(ministack)


@pytest.fixture
async def client(ministack: str, aws_credentials: None) -> AsyncIterator[Any]:
    """The user's own."""
    async with get_session().create_client("dynamodb", region_name="eu-west-1", endpoint_url=ministack) as client:
        yield client


async def test_a_record_is_written_while_the_grant_is_current_and_read_by_anybody(url: str) -> None:
    async with replicas(url, "web-1", "web-2") as (first, second):
        assert await second.read("done") is None
        grant = await first.take()
        assert await first.write("done", '{"rows": 3}', grant)
        record = await second.read("done")
        assert record is not None
        assert (record.key, record.token, record.value) == ("done", grant.token, '{"rows": 3}')


async def test_a_holder_that_has_lost_its_lease_writes_no_record(url: str) -> None:
    async with replicas(url, "web-1", "web-2") as (first, second):
        old = await first.take()
        assert await first.write("done", "1", old)
        await first.gives_back(old)
        assert not await first.write("done", "2", old)
        new = await second.take()
        assert not await first.write("done", "3", old)
        assert await second.write("done", "4", new)
        record = await first.read("done")
        assert record is not None
        assert record.value == "4"


async def test_a_record_whose_answer_was_lost_is_written_once(url: str, ministack: str) -> None:
    with faulty(ministack) as faults:
        through = table_url(faults.endpoint, url.partition("?")[0].removeprefix("dynamodb://"))
        async with replicas(through, "web-1") as (replica,):
            grant = await replica.take()
            assert await replica.read("done") is None
            faults.plan("TransactWriteItems", "lose")
            assert await replica.write("done", "1", grant)
            requests = {body["ClientRequestToken"] for _, body, _ in faults.seen if body.get("TransactItems")}
            assert len(requests) == 1


@pytest.fixture
def simple_url(dynalite: str, aws_credentials: None) -> str:
    return fresh_table(dynalite)


async def test_an_engine_without_transactions_says_so(simple_url: str) -> None:
    async with replicas(simple_url, "web-1") as (replica,):
        grant = await replica.take()
        with pytest.raises(errors.NotSupported, match="transact_write_items"):
            await replica.write("done", "1", grant)


async def test_the_users_own_transaction_is_written_only_while_the_grant_is_current(url: str, client: Any) -> None:
    async with AsyncInterlock(url) as locks:
        grant = await locks.lease("feeds").acquire()
        table = url.partition("?")[0].removeprefix("dynamodb://")
        row = {"Put": {"TableName": table, "Item": {"lock_key": {"S": "row"}, "by": {"N": str(grant.token)}}}}
        item = grant.guard_item()
        await client.transact_write_items(TransactItems=[item, row])
        await grant.release()
        with pytest.raises(ClientError) as refused:
            await client.transact_write_items(TransactItems=[item, row])
        reasons = refused.value.response["CancellationReasons"]
        assert [reason["Code"] for reason in reasons] == ["ConditionalCheckFailed", "None"]
        with pytest.raises(errors.LeaseLost):
            grant.guard_item()


async def test_a_guard_after_the_lease_was_taken_over_is_refused(url: str, client: Any) -> None:
    async with replicas(url, "web-1", "web-2") as (old, thief):
        item = old.guard_item(await old.take())
        await thief.ask()
        thief.clock.pass_by(31)
        current = thief.guard_item(await thief.take())
        with pytest.raises(ClientError, match="ConditionalCheckFailed"):
            await client.transact_write_items(TransactItems=[item])
        await client.transact_write_items(TransactItems=[current])


async def test_renewals_go_on_beside_the_users_transactions(url: str, client: Any) -> None:
    async with replicas(url, "web-1") as (replica,):
        grant = await replica.take()
        item = replica.guard_item(grant)
        for _ in range(5):
            await client.transact_write_items(TransactItems=[item])
            assert await replica.keeps(grant)


async def test_a_grant_of_dynamodb_has_no_connection_to_guard(url: str) -> None:
    async with AsyncInterlock(url) as locks, locks.lease("feeds") as grant:
        with pytest.raises(errors.GuardRefused, match="guard_item"):
            await grant.guard(object())
    async with AsyncInterlock(url) as locks, locks.leases("feeds", "mails") as grants:
        with pytest.raises(errors.GuardRefused, match="guard_item"):
            await grants.guard(object())


def test_threads_have_none_either(url: str) -> None:
    with (
        Interlock(url) as locks,
        locks.leases("feeds", "mails") as grants,
        pytest.raises(errors.GuardRefused, match="guard_item"),
    ):
        grants.guard(object())


def test_threads_have_the_item_too(url: str) -> None:
    with Interlock(url) as locks, locks.lease("feeds") as grant:
        check = grant.guard_item()["ConditionCheck"]
        assert check["Key"] == {"lock_key": {"S": "LOCK#feeds"}}
        with pytest.raises(errors.GuardRefused, match="guard_item"):
            grant.guard(object())


async def test_a_grant_of_postgresql_has_no_item(interlock_url: str) -> None:
    async with AsyncInterlock(interlock_url) as locks, locks.lease("feeds") as grant:
        with pytest.raises(errors.GuardRefused, match=r"grant\.guard\(connection\)"):
            grant.guard_item()
