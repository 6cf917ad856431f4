"""Leases on DynamoDB as users meet them: kept, waited for, lost, given back."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from interlock import AsyncInterlock, Interlock, errors
from interlock.stores.dynamodb.store import DynamoStore
from support.dynamodb import fresh_table, table_url
from support.dynamodb_stores import replicas
from support.http_faults import Faults, faulty
from support.lease_engine import reach, until


@pytest.fixture
async def locks(dynamodb_url: str) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(dynamodb_url) as locks:
        yield locks


@pytest.fixture
async def others(dynamodb_url: str) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(dynamodb_url) as locks:
        yield locks


async def test_a_lease_is_kept_for_longer_than_its_length(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    async with locks.lease("feeds", ttl=4, renew_every=0.2) as grant:
        first = grant.trusted_until
        await until(lambda: grant.trusted_until > first + 4)
        assert await others.lease("feeds", ttl=4).try_acquire() is None
        grant.check()


async def test_a_waiter_gets_the_lease_after_its_release(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    grant = await locks.lease("feeds").acquire()
    waiting = asyncio.ensure_future(others.lease("feeds").acquire(timeout=20))
    await until(lambda: others.metrics.waits)
    assert await grant.release()
    next_one = await waiting
    assert next_one.token > grant.token
    await next_one.release()


async def test_a_holder_that_was_passed_over_is_cancelled(dynamodb_url: str, locks: AsyncInterlock) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        async with locks.lease("feeds", ttl=30, renew_every=0.2):
            begun.set()
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await begun.wait()
    async with replicas(dynamodb_url, "thief") as (thief,):
        while (await thief.ask()).status != "granted":  # its clock goes far too fast
            thief.clock.pass_by(3600)
        with pytest.raises(errors.LeaseLost):
            await working


async def test_waiting_has_an_end(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    async with locks.lease("feeds"):
        with pytest.raises(errors.LeaseTimeout):
            await others.lease("feeds").acquire(timeout=0.2)


async def test_connections_are_closed_when_nothing_is_held(dynamodb_url: str) -> None:
    async with AsyncInterlock(dynamodb_url, idle_after=1.0) as locks:
        await (await locks.lease("feeds").acquire()).release()
        store = locks._stores[asyncio.get_running_loop()]
        assert isinstance(store, DynamoStore)
        await until(lambda: not store.client.is_open)
        await (await locks.lease("feeds").acquire()).release()


async def test_many_leases_of_one_process(locks: AsyncInterlock) -> None:
    grants = await asyncio.gather(*(locks.lease(f"feed-{number}", ttl=120).acquire() for number in range(200)))
    assert len({grant.token for grant in grants}) == 200
    assert all(await asyncio.gather(*(grant.release() for grant in grants)))


FORKING = """
import os, sys
from interlock import Interlock
locks = Interlock(sys.argv[1])
with locks.lease("parent") as grant:
    child = os.fork()
    if child == 0:
        assert grant.lost
        assert locks.lease("parent").try_acquire() is None
        with locks.lease("child") as own:
            own.check()
        locks.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    grant.check()
locks.close()
"""


def test_a_forked_child_has_requests_of_its_own_and_none_of_the_grants(dynamodb_url: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING, dynamodb_url], check=True, timeout=50)


async def test_hand_over_is_refused_and_the_lease_is_kept(locks: AsyncInterlock) -> None:
    async with locks.lease("feeds") as grant:
        with pytest.raises(errors.NotSupported):
            await grant.hand_over()
        grant.check()


def test_threads(dynamodb_url: str) -> None:
    with Interlock(dynamodb_url) as locks:
        with locks.lease("report") as grant:
            grant.check()
        with locks.lease("report") as again:
            assert again.token > grant.token


@pytest.fixture
def faults(dynamodb_endpoint: str) -> Iterator[Faults]:
    with faulty(dynamodb_endpoint) as faults:
        yield faults


@pytest.fixture
def faulty_url(dynamodb_endpoint: str, faults: Faults) -> str:
    return table_url(faults.endpoint, fresh_table(dynamodb_endpoint).partition("?")[0].removeprefix("dynamodb://"))


async def test_a_lease_outlives_an_outage_that_is_shorter_than_itself(faulty_url: str, faults: Faults) -> None:
    async with AsyncInterlock(faulty_url) as locks, locks.lease("feeds", ttl=30, renew_every=0.2) as grant:
        faults.choose = lambda operation, _: "throttle" if operation == "UpdateItem" else None
        await until(lambda: len(faults.of("UpdateItem")) >= 3)
        renewed = asyncio.Event()
        grant.on_renewed(lambda _: renewed.set())
        faults.choose = lambda operation, _: None
        await renewed.wait()
        grant.check()


async def test_a_lease_is_lost_when_an_outage_outlasts_it(faulty_url: str, faults: Faults) -> None:
    async with AsyncInterlock(faulty_url) as locks:
        grant = await locks.lease("feeds", ttl=0.5).acquire()
        faults.choose = lambda operation, _: "fail" if operation == "UpdateItem" else None
        assert await grant.wait_lost() == "expired"
        faults.choose = lambda operation, _: None


async def test_a_waiter_gets_the_lease_despite_throttling(faulty_url: str, faults: Faults) -> None:
    async with AsyncInterlock(faulty_url, request_timeout=1.0) as locks:
        await reach(locks)
        faults.choose = lambda operation, _: "throttle" if operation == "PutItem" else None
        waiting = asyncio.ensure_future(locks.lease("feeds", ttl=4).acquire())
        await until(lambda: faults.of("PutItem").count("throttle") >= 12)
        faults.choose = lambda operation, _: None
        await (await waiting).release()


@pytest.mark.exhaustive
async def test_a_name_that_is_throttled_costs_the_others_of_its_batch_nothing(faulty_url: str, faults: Faults) -> None:
    async with AsyncInterlock(faulty_url, request_timeout=3.0) as locks:
        faults.choose = lambda _, body: "throttle" if "LOCK#hot" in str(body.get("Item")) else None
        names = ["a", "hot", "b", "c"]
        outcomes = await asyncio.gather(*(locks.lease(name).try_acquire() for name in names), return_exceptions=True)
        assert [type(outcome).__name__ for outcome in outcomes] == [
            "AsyncGrant",
            "StoreThrottled",
            "AsyncGrant",
            "AsyncGrant",
        ]
        assert faults.of("PutItem").count(None) == 3
