"""The items in the table, as other tools read them, and DynamoDB's own deletion of them."""

import time
from datetime import datetime

import pytest

from interlock.stores.dynamodb.row import KEPT_FOR
from support.dynamodb import fresh_table
from support.dynamodb_stores import Replica, replicas


@pytest.fixture
def registry_url(dynamodb_endpoint: str) -> str:
    """A table of the kind that applications are registered in, by their names."""
    return fresh_table(dynamodb_endpoint, key="app_name")


async def test_a_lock_of_a_database_has_the_key_and_attributes_that_operators_know(registry_url: str) -> None:
    async with replicas(registry_url, "controller-1") as (replica,):
        grant = await replica.take("DB#i-0abc", ttl=60.0, metadata='{"app": "shop"}')
        item = await replica.item("DB#i-0abc")
    assert item["app_name"] == {"S": "LOCK#DB#i-0abc"}
    assert item["owner_id"] == {"S": str(grant.grant_id)}
    assert item["lock_type"] == {"S": "lease"}
    assert abs(datetime.fromisoformat(item["created_at"]["S"]).timestamp() - time.time()) < 30
    assert item["ttl"].keys() == {"N"}
    assert (item["holder"], item["metadata"]) == ({"S": "controller-1"}, {"S": '{"app": "shop"}'})


async def test_nothing_but_ttl_is_a_number_that_deletion_could_take_for_a_past_moment(dynamodb_url: str) -> None:
    """DynamoDB deletes by a number of seconds since 1970, unless that is more than five years ago."""
    now = time.time()
    async with replicas(dynamodb_url, "web-1") as (replica,):
        grant = await replica.take(metadata="{}")
        for _ in range(2):
            for name, value in (await replica.item()).items():
                if "N" in value:
                    number = float(value["N"])
                    assert number < now - 5 * 365 * 86400 or number > now + KEPT_FOR, name
            await replica.gives_back(grant)


async def test_an_item_may_be_deleted_a_week_after_its_last_use_and_not_before(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        grant = await replica.take()
        moments = [await _deleted_at(replica)]
        replica.clock.pass_by(20)
        assert await replica.keeps(grant)
        moments.append(await _deleted_at(replica))
        replica.clock.pass_by(20)
        await replica.gives_back(grant)
        moments.append(await _deleted_at(replica))
    assert moments[0] >= time.time() + 7 * 86400
    assert moments[1] >= moments[0] + 19
    assert moments[2] >= moments[1] + 19


async def test_leases_of_two_prefixes_in_one_table_do_not_meet(dynamodb_url: str) -> None:
    async with (
        replicas(dynamodb_url, "web-1") as (ours,),
        replicas(f"{dynamodb_url}&prefix=OTHER%23", "b") as (theirs,),
    ):
        await ours.take()
        await theirs.take()
        assert [len(await replica.held("")) for replica in (ours, theirs)] == [1, 1]


async def _deleted_at(replica: Replica) -> float:
    return float((await replica.item())["ttl"]["N"])
