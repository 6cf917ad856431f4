"""`interlock doctor` on a table of DynamoDB."""

import json

import pytest

from interlock.clock import boottime
from interlock.doctor import Finding, Verdict, examine, exit_status
from interlock.stores.dynamodb.address import parsed
from interlock.stores.dynamodb.client import Client
from support.dynamodb import fresh_table, table_url
from support.dynamodb_stores import replicas
from support.http_faults import faulty
from support.programs import interlock


async def findings(url: str) -> dict[str, Finding]:
    return {finding.check: finding for finding in await examine(url, "interlock")}


async def test_a_table_that_serves_is_left_as_it_is(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):

        async def items() -> object:
            return (await replica.client.call("scan", boottime() + 5, TableName=replica.address.table))["Items"]

        await replica.take()
        before = await items()
        found = await findings(dynamodb_url)
        assert await items() == before
    assert exit_status(found.values()) == 0
    assert [found[check].verdict for check in ("table", "index", "permissions")] == [Verdict.OK] * 3


def test_a_lacking_feature_of_an_engine_is_reported(dynalite: str, aws_credentials: None) -> None:
    done = interlock("doctor", "--json", url=fresh_table(dynalite))
    told = {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0
    assert told["transactions"]["verdict"] == "warning"
    assert "guards, once and every cannot work, and replicas have to agree on `readers`" in told["transactions"]["says"]
    assert told["ttl"]["verdict"] == "warning"


def test_a_complete_table_has_no_complaints(ministack: str, aws_credentials: None) -> None:
    done = interlock("doctor", url=fresh_table(ministack))
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].startswith("dynamodb://locks-")
    assert done.stdout.splitlines()[-1] == "Nothing to complain of."


async def test_a_table_that_is_not_there(dynamodb_endpoint: str) -> None:
    found = await findings(table_url(dynamodb_endpoint, "nothing-here"))
    assert exit_status(found.values()) == 78
    assert "There is no table 'nothing-here'" in found["reachable"].says


async def test_a_key_that_cannot_be_used(dynamodb_endpoint: str) -> None:
    url = table_url(dynamodb_endpoint, "of-numbers")
    client = Client(parsed(url))
    await client.call(
        "create_table",
        boottime() + 5,
        TableName="of-numbers",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    found = await findings(url)
    await client.close()
    assert exit_status(found.values()) == 78
    assert "has to be a single text attribute" in found["reachable"].says


async def test_a_table_without_index_and_deletion(dynamodb_endpoint: str) -> None:
    url = table_url(dynamodb_endpoint, "bare")
    client = Client(parsed(url))
    await client.call(
        "create_table",
        boottime() + 5,
        TableName="bare",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "lock_key", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "lock_key", "KeyType": "HASH"}],
    )
    found = await findings(url)
    await client.close()
    assert exit_status(found.values()) == 0
    assert (found["index"].verdict, found["ttl"].verdict) == (Verdict.WARNING, Verdict.WARNING)
    assert found["index"].remedy == "Let a user with the rights for it run `interlock store create URL`."


@pytest.mark.parametrize(
    ("denied", "status", "words"),
    [
        ("DescribeTable", 77, "may not do describe_table"),
        ("PutItem", 77, "may not do PutItem, which leases need"),
        ("UpdateItem", 77, "may not do UpdateItem, which leases need"),
        ("GetItem", 77, "may not do GetItem, which leases need"),
        ("Query", 0, "may not do Query, by which leases are listed"),
        ("BatchGetItem", 0, "may not do BatchGetItem, by which leases are listed"),
        ("DescribeTimeToLive", 0, "These credentials may not see"),
    ],
)
async def test_a_denied_operation_is_reported(
    dynamodb_endpoint: str, dynamodb_url: str, denied: str, status: int, words: str
) -> None:
    table = parsed(dynamodb_url).table
    with faulty(dynamodb_endpoint) as faults:
        faults.choose = lambda operation, body: "deny" if operation == denied else None
        found = await findings(table_url(faults.endpoint, table))
    assert exit_status(found.values()) == status
    assert any(words in finding.says for finding in found.values())


async def test_an_endpoint_without_a_server(aws_credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.doctor.dynamodb._TIMEOUT", 1.0)
    found = await findings("dynamodb://locks?region=eu-west-1&endpoint=http%3A%2F%2F127.0.0.1%3A1")
    assert exit_status(found.values()) == 69
