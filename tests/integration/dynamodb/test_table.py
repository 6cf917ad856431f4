"""The table: made, looked at, and refused where it cannot serve."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiobotocore.session import get_session
from click.testing import CliRunner

from interlock import AsyncInterlock, errors
from interlock.cli import main
from interlock.stores.dynamodb.address import parsed
from interlock.stores.dynamodb.client import Client
from interlock.stores.dynamodb.table import create
from support.dynamodb import fresh_table, table_url
from support.dynamodb_stores import replicas


@pytest.fixture
async def client(dynamodb_endpoint: str) -> AsyncIterator[Any]:
    async with get_session().create_client(
        "dynamodb", region_name="eu-west-1", endpoint_url=dynamodb_endpoint
    ) as client:
        yield client


def _invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["store", *arguments])
    return result.exit_code, result.output


def test_a_table_is_created_and_creating_it_again_changes_nothing(dynamodb_endpoint: str) -> None:
    url = table_url(dynamodb_endpoint, f"made-{id(dynamodb_endpoint)}")
    for _ in range(2):
        status, output = _invoke("create", "--key", "app_name", url)
        assert status == 0
        assert "can serve; its key is 'app_name'" in output
    status, output = _invoke("check", "--json", url)
    facts = json.loads(output)
    assert (status, facts["key"], facts["has_index"]) == (0, "app_name", True)


def test_deletion_by_ttl_is_turned_on_where_the_engine_has_it(ministack: str, aws_credentials: None) -> None:
    status, output = _invoke("check", "--json", fresh_table(ministack))
    assert (status, json.loads(output)["deletes_by"], json.loads(output)["lacks"]) == (0, "ttl", [])


async def test_any_number_may_create_it_at_once(dynamodb_endpoint: str) -> None:
    address = parsed(table_url(dynamodb_endpoint, f"at-once-{id(dynamodb_endpoint)}"))
    clients = [Client(address) for _ in range(5)]
    try:
        tables = await asyncio.gather(*(create(client, "lock_key") for client in clients))
    finally:
        for client in clients:
            await client.close()
    assert {(table.key, table.has_index) for table in tables} == {("lock_key", True)}


def test_the_error_for_a_missing_table_says_what_to_do(dynamodb_endpoint: str) -> None:
    url = table_url(dynamodb_endpoint, "nowhere")
    status, output = _invoke("check", url)
    assert status == errors.SchemaMissing.exit_status
    assert "interlock store create" in output

    async def use() -> None:
        async with AsyncInterlock(url):
            pass

    with pytest.raises(errors.SchemaMissing, match="'nowhere'"):
        asyncio.run(use())


async def test_an_unopened_root_object_gets_the_error_for_a_missing_table(dynamodb_endpoint: str) -> None:
    locks = AsyncInterlock(table_url(dynamodb_endpoint, "nowhere"))
    try:
        with pytest.raises(errors.SchemaMissing):
            await locks.lease("feeds").try_acquire()
    finally:
        await locks.close()


@pytest.mark.parametrize(
    ("definitions", "keys"),
    [
        ({"pk": "S", "sk": "S"}, {"pk": "HASH", "sk": "RANGE"}),
        ({"pk": "N"}, {"pk": "HASH"}),
        ({"fence": "S"}, {"fence": "HASH"}),
    ],
)
async def test_a_table_with_another_kind_of_key_is_refused(
    dynamodb_endpoint: str, client: Any, definitions: dict[str, str], keys: dict[str, str]
) -> None:
    name = f"foreign-{'-'.join(definitions)}-{'-'.join(definitions.values())}"
    await client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in definitions.items()],
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in keys.items()],
    )
    await client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 0.05})
    async with replicas(table_url(dynamodb_endpoint, name), "web-1") as (replica,):
        with pytest.raises(errors.SchemaForeign, match="single text attribute"):
            await replica.ask()


async def test_a_table_of_other_things_serves_without_an_index_and_gets_one(
    ministack: str, aws_credentials: None
) -> None:
    async with get_session().create_client("dynamodb", region_name="eu-west-1", endpoint_url=ministack) as client:
        await client.create_table(
            TableName="app_registry",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "app_name", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "app_name", "KeyType": "HASH"}],
        )
    url = table_url(ministack, "app_registry")
    async with replicas(url, "web-1") as (replica,):
        await replica.take()
        with pytest.raises(errors.NotSupported):
            await replica.held("")
        assert (await create(replica.client, "ignored")).key == "app_name"
        await replica.verify()
        assert [lease.name for lease in await replica.held("")] == ["feeds"]


def test_a_key_that_has_another_meaning_is_refused(dynamodb_endpoint: str) -> None:
    status, output = _invoke("create", "--key", "ttl", table_url(dynamodb_endpoint, "some-table"))
    assert status == errors.ConfigurationError.exit_status
    assert "'ttl'" in output


async def test_credentials_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, dynamodb_endpoint: str) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    async with replicas(table_url(dynamodb_endpoint, "any-table"), "web-1") as (replica,):
        with pytest.raises(errors.AccessDenied, match="AWS_ACCESS_KEY_ID"):
            await replica.ask()


async def test_an_endpoint_without_a_server_fails_soon(aws_credentials: None) -> None:
    async with replicas(table_url("http://127.0.0.1:1", "any-table"), "web-1", timeout=1.0) as (replica,):
        with pytest.raises(errors.DatabaseUnreachable, match="No server answers for dynamodb://any-table"):
            await replica.ask()
