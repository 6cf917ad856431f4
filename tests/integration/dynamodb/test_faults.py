"""Throttling, errors, time-outs and lost answers: injected between client and engine."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import pytest

from interlock import errors
from interlock.clock import boottime
from interlock.stores.dynamodb.address import parsed
from interlock.stores.dynamodb.client import Client
from support.dynamodb import fresh_table, table_url
from support.dynamodb_stores import replicas
from support.http_faults import Fault, Faults, faulty
from support.lease_engine import until


@pytest.fixture
def faults(dynamodb_endpoint: str) -> Iterator[Faults]:
    with faulty(dynamodb_endpoint) as faults:
        yield faults


@pytest.fixture
def url(dynamodb_endpoint: str, faults: Faults) -> str:
    """A table, through the faults."""
    table = fresh_table(dynamodb_endpoint).partition("?")[0].removeprefix("dynamodb://")
    return table_url(faults.endpoint, table)


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize("fault", ["throttle", "fail", "fail late", "lose", "hang", "conflict"])
async def test_a_request_that_fails_once_is_made_again_and_granted_once(url: str, faults: Faults, fault: Fault) -> None:
    async with replicas(url, "web-1", "web-2") as (replica, other):
        faults.plan("PutItem", fault)
        grant = await replica.take()
        assert len(faults.of("PutItem")) >= 2
        faults.plan("UpdateItem", fault)
        assert await replica.keeps(grant)
        assert (await other.ask()).status == "busy"
        faults.plan("UpdateItem", fault)
        assert await replica.gives_back(grant) == "released"
        assert (await other.take()).token > grant.token


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("throttle", errors.StoreThrottled),
        ("fail", errors.DatabaseUnreachable),
        ("lose", errors.DatabaseUnreachable),
        ("hang", errors.DatabaseUnreachable),
        ("conflict", errors.LockNotAvailable),
        ("deny", errors.PermissionMissing),
    ],
)
async def test_a_fault_that_does_not_end_is_an_error_and_never_contention(
    url: str, faults: Faults, fault: Fault, expected: type[Exception]
) -> None:
    async with replicas(url, "web-1", timeout=2.0) as (replica,):
        await replica.table()
        faults.choose = lambda operation, _: fault
        with pytest.raises(expected) as raised:
            await replica.ask()
        assert replica.address.table in str(raised.value)


async def test_an_unknown_outcome_is_reported_even_if_later_attempts_are_refused(url: str, faults: Faults) -> None:
    """The engine asks again after such an error, and gives back what it finds; after throttling it would not."""
    async with replicas(url, "web-1", "web-2", timeout=2.0) as (replica, other):
        await replica.table()
        faults.plan("PutItem", "fail late")
        faults.choose = lambda operation, _: "throttle"
        grant_id = uuid4()
        with pytest.raises(errors.DatabaseUnreachable):
            await replica.ask(grant_id=grant_id)
        faults.choose = lambda operation, _: None
        assert (await other.ask()).status == "busy"
        assert (await replica.ask(grant_id=grant_id)).status == "granted"


async def test_nothing_is_sent_again_that_would_be_cut_off(
    url: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcome would be unknown, so the error would differ from the answers to all earlier attempts."""
    monkeypatch.setattr("interlock.stores.dynamodb.client._SHORTEST_ATTEMPT", 60.0)
    async with replicas(url, "web-1", timeout=30.0) as (replica,):
        await replica.table()
        faults.choose = lambda operation, _: "throttle"
        with pytest.raises(errors.StoreThrottled):
            await replica.ask()
        assert faults.of("PutItem") == ["throttle"]


async def test_a_grant_whose_answer_was_lost_is_renewed_before_it_is_trusted(url: str, faults: Faults) -> None:
    """Others may have watched it since: by the time it is found, they could be about to take it."""
    async with replicas(url, "web-1", "web-2") as (replica, watcher):
        await replica.table()
        faults.plan("PutItem", "lose")
        faults.choose = lambda operation, _: "throttle" if operation == "PutItem" else None
        grant_id = uuid4()
        with pytest.raises(errors.DatabaseUnreachable):
            await replica.ask(ttl=2.0, grant_id=grant_id)
        faults.choose = lambda operation, _: None
        await watcher.ask()
        watcher.clock.pass_by(1.9)
        assert (await replica.ask(ttl=2.0, grant_id=grant_id)).remaining == 2.0
        watcher.clock.pass_by(0.5)
        assert (await watcher.ask()).status == "busy"


@pytest.mark.exhaustive
async def test_one_renewal_that_fails_costs_the_others_nothing(url: str, faults: Faults) -> None:
    async with replicas(url, "web-1") as (replica,):
        grants = [await replica.take(f"feed-{number}") for number in range(5)]
        unlucky = {"lock_key": {"S": f"LOCK#{grants[3].name}"}}
        faults.choose = lambda _, body: "throttle" if body.get("Key") == unlucky else None
        answer = await replica.renew(grants, 3.0)
        assert (list(answer.lost), list(answer.locked)) == ([], [3])


async def test_a_round_in_which_nothing_was_renewed_is_an_error(url: str, faults: Faults) -> None:
    async with replicas(url, "web-1") as (replica,):
        grant = await replica.take()
        faults.choose = lambda operation, _: "fail"
        with pytest.raises(errors.DatabaseUnreachable):
            await replica.renew([grant], 0.5)


async def test_a_request_that_arrives_after_its_lease_was_given_back_is_refused(url: str, faults: Faults) -> None:
    """Held up on its way, made again, obeyed, released: then the first one arrives."""
    async with replicas(url, "web-1", "web-2", timeout=5.0) as (replica, other):
        faults.plan("PutItem", "hold")
        grant = await replica.take()
        assert await replica.gives_back(grant) == "released"
        faults.let_go()
        assert "owner_id" not in await replica.item()
        assert (await other.take()).token > grant.token


async def test_a_renewal_that_arrives_after_a_later_one_takes_nothing_back(url: str, faults: Faults) -> None:
    """Where a bound on the clocks is stated, others go by the time that is written down."""
    async with replicas(url, "web-1") as (replica,):
        grant = await replica.take()
        faults.plan("UpdateItem", "hold", "throttle")
        faults.choose = lambda operation, _: "throttle"
        with pytest.raises(errors.DatabaseUnreachable):
            await replica.renew([grant], 0.5)
        faults.choose = lambda operation, _: None
        replica.clock.pass_by(5)
        assert await replica.keeps(grant)
        written = await replica.item()
        faults.let_go()
        assert await replica.item() == written


async def test_every_attribute_is_named_by_a_sign_and_not_by_a_word_that_may_be_reserved(
    url: str, faults: Faults
) -> None:
    async with replicas(url, "web-1", "web-2") as (replica, heir):
        grant = await replica.take()
        await replica.keeps(grant)
        await heir.ask()
        heir.clock.pass_by(31)
        await heir.gives_back(await heir.take())
        await heir.held("feeds")
    expressions = [text for _, body, _ in faults.seen for name, text in body.items() if name.endswith("Expression")]
    assert len(expressions) > 8
    for expression in expressions:
        words = {word.strip("(),") for word in expression.replace("(", " ").split()}
        named = {word for word in words if word[:1] in "#:"}
        assert words - named <= {"SET", "REMOVE", "AND", "OR", "=", "<", "<=", *_FUNCTIONS}


_FUNCTIONS = ("attribute_not_exists", "attribute_exists", "begins_with", "")


async def test_botocore_neither_waits_nor_tries_on_its_own(url: str, faults: Faults) -> None:
    async with replicas(url, "web-1") as (replica,):
        await replica.table()
        config = (await replica.client._connected()).meta.config
        assert config.retries["total_max_attempts"] == 1
        assert max(config.connect_timeout, config.read_timeout) <= 2


async def test_a_request_under_way_does_not_open_a_closed_client_again(url: str, faults: Faults) -> None:
    """The connections that it opened would never be closed."""
    address = parsed(url)
    client = Client(address)
    await client.call("describe_table", boottime() + 30, TableName=address.table)
    faults.choose = lambda operation, _: "hang"
    call = asyncio.create_task(client.call("describe_table", boottime() + 30, TableName=address.table))
    await until(lambda: "hang" in faults.of("DescribeTable"))
    await client.close()
    with pytest.raises(errors.DatabaseUnreachable):
        await call
    assert not client.is_open
    with pytest.raises(errors.ConfigurationError, match="was closed"):
        await client.call("describe_table", boottime() + 30, TableName=address.table)
    assert not client.is_open
