"""Leases after a crash of the server: every acknowledged change survives, regardless of the settings.

The server is configured not to wait for the disk, and to write in the background so rarely that it never does in a
test: a commit that did not wait for the disk is certainly lost.
"""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from interlock.embedded import Cluster
from interlock.schema import whole_schema
from support.postgres import QUICK, execute, running_cluster
from support.sql_leases import acquire, ask, may_write, release, renew, row, set_clock

CARELESS = QUICK | {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "2GB"}
Crash = Callable[[], None]


@pytest.fixture(scope="module")
def unsafe_server() -> Iterator[Cluster]:
    with running_cluster(CARELESS) as cluster:
        execute(cluster.url(), whole_schema("interlock"))
        yield cluster


@pytest.fixture
def url(unsafe_server: Cluster) -> str:
    execute(unsafe_server.url(), "TRUNCATE interlock.lease, interlock.waiter")
    set_clock(unsafe_server.url(), 0)
    return unsafe_server.url()


@pytest.fixture
def crash(unsafe_server: Cluster) -> Crash:
    def crash() -> None:
        unsafe_server.stop("immediate")
        unsafe_server.start()

    return crash


@pytest.fixture(autouse=True)
def all_before_is_on_disk(unsafe_server: Cluster, url: str) -> None:
    execute(url, "CHECKPOINT")


def test_with_these_settings_a_crash_loses_a_commit_that_did_not_wait_for_the_disk(url: str, crash: Crash) -> None:
    execute(url, "CREATE TABLE note (number int)")
    crash()
    assert execute(url, "SELECT to_regclass('note')") == [(None,)]


@pytest.mark.parametrize("is_known", [False, True], ids=["a new name", "a known name"])
def test_an_acknowledged_grant_survives_a_crash(url: str, crash: Crash, is_known: bool) -> None:
    if is_known:
        execute(url, "SELECT interlock.register_v1('{feeds}')")
    grant = acquire(url, "feeds", ttl=30)
    crash()
    assert row(url, "feeds").grant_id == grant.grant_id
    assert ask(url, "feeds", ttl=30).status == "busy"
    assert may_write(url, grant)


def test_an_acknowledged_batch_of_grants_survives_a_crash(url: str, crash: Crash) -> None:
    execute(url, "SELECT interlock.register_v1('{a,b}')")
    execute(
        url,
        "SELECT interlock.acquire_many_v1('{a,b}', ARRAY[gen_random_uuid(), gen_random_uuid()], '{30,30}',"
        " '{NULL,NULL}', '{false,false}', 'a test', NULL, NULL, NULL)",
    )
    before = [row(url, name) for name in "ab"]
    crash()
    assert [row(url, name) for name in "ab"] == before


def test_an_acknowledged_renewal_survives_a_crash(url: str, crash: Crash) -> None:
    grant = acquire(url, "feeds", ttl=30)
    set_clock(url, 20)
    execute(url, "CHECKPOINT")
    assert renew(url, grant, ttl=30) == "renewed"
    crash()
    set_clock(url, 40)
    assert ask(url, "feeds", ttl=30).status == "busy"


def test_tokens_increase_after_a_crash_that_lost_the_release(url: str, crash: Crash) -> None:
    first = acquire(url, "feeds", ttl=30)
    release(url, first)
    second = acquire(url, "feeds", ttl=30)
    release(url, second)
    crash()
    set_clock(url, 30)
    assert acquire(url, "feeds", ttl=30).token > second.token > first.token


def test_a_release_in_the_users_transaction_does_not_change_its_durability(url: str, crash: Crash) -> None:
    execute(url, "CREATE TABLE IF NOT EXISTS note (number int)")
    grant = acquire(url, "feeds", ttl=30)
    with psycopg.connect(url, options="-c synchronous_commit=on") as connection:
        connection.execute("INSERT INTO note VALUES (1)")
        connection.execute("SELECT interlock.release_v1(%s, %s, %s)", grant.triple)
    crash()
    assert execute(url, "SELECT number FROM note") == [(1,)]
    assert row(url, "feeds").grant_id is None


def test_a_crash_empties_the_queue(url: str, crash: Crash) -> None:
    acquire(url, "feeds", ttl=30)
    waits = "SELECT status FROM interlock.acquire_v1('feeds', gen_random_uuid(), 30, 'a test', wait => true)"
    assert execute(url, waits) == [("busy",)]
    execute(url, "CHECKPOINT")
    crash()
    assert execute(url, "SELECT count(*) FROM interlock.waiter") == [(0,)]
