"""docs/how-to/dynamodb.md says what is so."""

import json
import re
from pathlib import Path

import pytest

from support.dynamodb import fresh_table, table_url
from support.dynamodb_stores import replicas
from support.http_faults import faulty

GUIDE = (Path(__file__).parents[3] / "docs" / "how-to" / "dynamodb.md").read_text()
ALSO = {"TransactWriteItems": ("ConditionCheckItem", "PutItem")}
"""The permissions that AWS requires in place of one with the operation's name."""


@pytest.fixture
def url(ministack: str, aws_credentials: None) -> str:
    return fresh_table(ministack)


async def test_the_policy_allows_exactly_the_used_operations(url: str, ministack: str) -> None:
    found = re.search(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    statements = json.loads(found[1])["Statement"]
    allowed = {
        action
        for one in statements
        for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }
    with faulty(ministack) as faults:
        through = table_url(faults.endpoint, url.partition("?")[0].removeprefix("dynamodb://"))
        async with replicas(through, "web-1", "web-2") as (replica, other):
            grant = await replica.take()
            await other.ask()
            await other.ask()
            await other.held("")
            await replica.write("done", "1", grant)
            await replica.read("done")
            await replica.gives_back(grant)
        done = {f"dynamodb:{action}" for name, _, _ in faults.seen for action in ALSO.get(name, (name,))}
    assert done == allowed


async def test_a_lease_is_taken_from_its_holder_as_the_guide_says(url: str) -> None:
    found = re.search(r"--update-expression '([^']+)'", GUIDE)
    assert found is not None
    async with replicas(url, "web-1", "web-2") as (holder, other):
        grant = await holder.take()
        await other.client.call(
            "update_item",
            other.clock() + 5,
            TableName=holder.address.table,
            Key=holder.key_of("feeds"),
            UpdateExpression=found[1],
        )
        assert not await holder.keeps(grant)
        assert await holder.held("") == []
        assert (await other.take()).token > grant.token


async def test_every_attribute_is_in_the_guide(url: str) -> None:
    async with replicas(url, "web-1") as (replica,):
        grant = await replica.take(metadata="{}")
        held = await replica.item()
        await replica.gives_back(grant)
        freed = await replica.item()
    for name in (held.keys() | freed.keys()) - {"lock_key"}:
        assert f"`{name}`" in GUIDE, name
