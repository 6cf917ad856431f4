"""The list of held leases and their holders."""

import pytest

from interlock import errors
from interlock.stores.dynamodb.table import LeaseTable
from support.dynamodb_stores import replicas


async def test_those_that_are_held_are_listed_by_name(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2") as (first, second):
        grants = {name: await first.take(name) for name in ("jobs/b", "jobs/a", "feeds", "jobs/c")}
        await first.gives_back(grants["jobs/c"])
        found = await second.held("jobs/")
        assert [(lease.name, lease.token) for lease in found] == [
            ("jobs/a", grants["jobs/a"].token),
            ("jobs/b", grants["jobs/b"].token),
        ]
        assert {(lease.holder, lease.host, lease.pid) for lease in found} == {("web-1", "host", 1)}
        assert [lease.name for lease in await second.held("")] == ["feeds", "jobs/a", "jobs/b"]


async def test_an_unrenewed_lease_is_listed_until_it_may_be_taken_over(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2") as (dead, other):
        await dead.take()
        assert [lease.remaining for lease in await other.held("")] == [30.0]
        other.clock.pass_by(29)
        assert [0 < lease.remaining <= 1 for lease in await other.held("")] == [True]
        other.clock.pass_by(2)
        assert await other.held("") == []
        assert (await other.ask()).status == "granted"


async def test_more_than_a_request_can_look_up_at_once(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        names = [f"feed-{number:03}" for number in range(250)]
        for name in names:
            await replica.take(name)
        assert [lease.name for lease in await replica.held("feed-")] == names


async def test_a_table_without_the_index_says_that_it_cannot_list(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        replica._table = LeaseTable("lock_key", has_index=False)
        with pytest.raises(errors.NotSupported, match="interlock store create"):
            await replica.held("")
