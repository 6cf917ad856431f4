"""Leases on DynamoDB, one request after the other."""

from uuid import UUID, uuid4

import pytest

from interlock import errors
from interlock.stores.leases import HandedGrant
from support.dynamodb_stores import Clock, replicas


async def test_one_request_is_granted_and_the_others_get_the_holders_name(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2") as (first, second):
        await first.take()
        answer = await second.ask()
        assert (answer.status, answer.holder) == ("busy", "web-1")
        assert 25 < answer.retry_after <= 30


async def test_a_released_lease_is_free_and_its_fence_is_kept(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2") as (first, second):
        grant = await first.take()
        assert await first.gives_back(grant) == "released"
        left = await first.item()
        assert int(left["fence"]["N"]) == grant.token
        assert not {"owner_id", "listing"} & set(left)
        assert (await second.take()).token > grant.token


async def test_tokens_grow_although_the_next_clock_is_behind(dynamodb_url: str) -> None:
    behind = Clock(wall=-86400.0)
    async with replicas(dynamodb_url, "web-1", "web-2", clocks={"web-2": behind}) as (first, second):
        tokens = []
        for replica in (first, second, second, first, second):
            grant = await replica.take()
            tokens.append(grant.token)
            await replica.gives_back(grant)
        assert tokens == sorted(set(tokens))


async def test_tokens_grow_although_the_item_was_deleted(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        before = await replica.take()
        await replica.gives_back(before)
        await replica.client.call(
            "delete_item", replica.clock() + 5, TableName=replica.address.table, Key=replica.key_of("feeds")
        )
        assert (await replica.take()).token > before.token


async def test_two_requests_of_one_process_never_share_a_grant(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        await replica.take()
        assert (await replica.ask()).status == "busy"


async def test_only_the_grant_itself_is_renewed_and_released(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2") as (first, second):
        grant = await first.take()
        for stranger in (grant._replace(token=grant.token - 1), grant._replace(grant_id=uuid4())):
            assert not await second.keeps(stranger)
            assert await second.gives_back(stranger) == "lost"
        assert await first.keeps(grant)


async def test_a_late_request_of_the_last_holder_changes_nothing(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1", "web-2") as (first, second):
        old = await first.take()
        await first.gives_back(old)
        new = await second.take()
        assert not await first.keeps(old)
        assert await first.gives_back(old) == "lost"
        assert await second.keeps(new)


async def test_releasing_twice_is_releasing_once(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        grant = await replica.take()
        assert [await replica.gives_back(grant) for _ in range(2)] == ["released", "released"]


async def test_a_request_that_is_sent_again_finds_its_own_grant(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        grant_id = uuid4()
        answers = [await replica.ask(grant_id=grant_id) for _ in range(2)]
        assert [answer.status for answer in answers] == ["granted", "granted"]
        assert answers[0].token == answers[1].token


async def test_a_batch_is_answered_in_its_order_and_one_lost_lease_costs_the_others_nothing(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        grants = [await replica.take(f"feed-{number}") for number in range(40)]
        grants[7] = grants[7]._replace(token=1)
        answer = await replica.renew(grants, 5.0)
        assert (list(answer.lost), list(answer.locked)) == ([7], [])


async def test_a_lease_that_has_expired_is_lost_to_its_holder_whether_another_has_it_or_not(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        grant = await replica.take()
        replica.clock.pass_by(30.1)
        assert not await replica.keeps(grant)


async def test_nothing_is_handed_over_without_a_queue(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        grant = await replica.take()
        with pytest.raises(errors.NotSupported, match="release the lease"):
            await replica.hand_over([grant])
        assert not await replica.subscribe(_nobody, lambda: None)
        assert await replica.keeps(grant)


async def test_an_item_of_another_program_is_an_error_and_stays_unchanged(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        await replica.table()
        item = replica.key_of("feeds") | {"owner_id": {"S": "a controller of theirs"}, "ttl": {"N": "1"}}
        await replica.client.call("put_item", replica.clock() + 5, TableName=replica.address.table, Item=item)
        with pytest.raises(errors.StatementFailed, match="'LOCK#feeds' was not written by Interlock"):
            await replica.ask()
        assert await replica.item() == item


@pytest.mark.parametrize("name", ["ttl", "name", "DB#i-0abc", "ключ", "a b", "'; --", "#owner_id", ":token"])
async def test_any_name_can_be_a_lease(dynamodb_url: str, name: str) -> None:
    async with replicas(dynamodb_url, "web-1") as (replica,):
        grant = await replica.take(name)
        assert await replica.keeps(grant)
        assert [lease.name for lease in await replica.held(name)] == [name]
        assert await replica.gives_back(grant) == "released"


def _nobody(grant_id: UUID | None, handed: HandedGrant | None = None, /) -> None:
    raise AssertionError
