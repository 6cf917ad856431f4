"""The guarantees of the SQL functions after a failover: with an asynchronous standby, the newest grants may be lost.

The standby is frozen before a grant that is to be lost. The database's clock stands still until the test advances it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from interlock.schema import whole_schema
from support.postgres import execute
from support.replication import Pair, primary_and_standby
from support.sql_leases import Answer, acquire, ask, may_write, release, renew, row, set_clock
from support.waiting import eventually

either_kind = pytest.mark.parametrize("pair", ["asynchronous", "synchronous"], indirect=True)
asynchronous = pytest.mark.parametrize("pair", ["asynchronous"], indirect=True)
synchronous = pytest.mark.parametrize("pair", ["synchronous"], indirect=True)

WAITING_FOR_STANDBY = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
STOP_WAITING_FOR_STANDBY = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with primary_and_standby(synchronous=request.param == "synchronous") as pair:
        execute(pair.url, whole_schema("interlock"))
        set_clock(pair.url, 0)
        pair.wait_caught_up()
        yield pair


def fail_over(pair: Pair) -> str:
    """Promote the standby. Returns the URL of the new primary."""
    pair.stop_primary()
    pair.promote()
    return pair.standby_url


def lose_a_grant(pair: Pair, *, ttl: float = 30) -> tuple[Answer, str]:
    """Returns a trusted grant that the new primary does not have, and the new primary."""
    release(pair.url, acquire(pair.url, "feeds", ttl=ttl))
    pair.wait_caught_up()
    pair.freeze()
    lost = acquire(pair.primary_url, "feeds", ttl=ttl)
    return lost, fail_over(pair)


@asynchronous
def test_nothing_is_granted_while_a_lost_grant_may_be_trusted(pair: Pair) -> None:
    lost, url = lose_a_grant(pair)
    assert row(url, "feeds").grant_id is None
    assert ask(url, "feeds", ttl=30).status == "held back"
    assert ask(url, "another", ttl=30).status == "held back"
    set_clock(url, 29.9)
    assert ask(url, "feeds", ttl=30).status == "held back"
    assert ask(url, "another", ttl=30).status == "held back"
    set_clock(url, 30)
    assert acquire(url, "feeds", ttl=30).token > lost.token


@pytest.mark.exhaustive
@asynchronous
def test_a_lost_renewal_delays_others_as_a_lost_grant_does(pair: Pair) -> None:
    grant = acquire(pair.url, "feeds", ttl=30)
    pair.wait_caught_up()
    pair.freeze()
    set_clock(pair.primary_url, 29)
    assert renew(pair.primary_url, grant, ttl=30) == "renewed"
    url = fail_over(pair)
    set_clock(url, 31)
    assert ask(url, "feeds", ttl=30).status == "held back"
    set_clock(url, 60)
    assert ask(url, "feeds", ttl=30).status == "held back"
    set_clock(url, 61)
    assert acquire(url, "feeds", ttl=30).token > grant.token


@pytest.mark.exhaustive(beyond=1)
@either_kind
def test_the_longest_ttl_in_use_counts_for_every_name(pair: Pair) -> None:
    release(pair.url, acquire(pair.url, "slow", ttl=500))
    acquire(pair.url, "slower", ttl=600)
    pair.wait_caught_up()
    url = fail_over(pair)
    assert ask(url, "feeds", ttl=5).status == "held back"
    set_clock(url, 599)
    assert ask(url, "feeds", ttl=5).status == "held back"
    set_clock(url, 600)
    acquire(url, "feeds", ttl=5)


@asynchronous
def test_a_ttl_that_the_new_primary_does_not_know_counts_for_its_users(pair: Pair) -> None:
    pair.freeze()
    acquire(pair.primary_url, "new", ttl=900)
    url = fail_over(pair)
    assert ask(url, "new", ttl=900).status == "held back"
    set_clock(url, 899)
    assert ask(url, "new", ttl=900).status == "held back"
    set_clock(url, 900)
    acquire(url, "new", ttl=900)


@asynchronous
def test_a_delayed_request_gets_the_remaining_time(pair: Pair) -> None:
    _, url = lose_a_grant(pair)
    assert ask(url, "feeds", ttl=30).retry_after == 30
    set_clock(url, 12)
    assert ask(url, "feeds", ttl=30).retry_after == 18
    assert ask(url, "feeds", ttl=50).retry_after == 38


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("skew", [-5, 0, 5])
@either_kind
def test_a_failover_loses_every_grant_and_frees_none(pair: Pair, skew: float) -> None:
    """With any difference between the clocks of the new and the old primary."""
    grant = acquire(pair.url, "feeds", ttl=30)
    pair.wait_caught_up()
    url = fail_over(pair)
    set_clock(url, skew)
    assert row(url, "feeds").grant_id == grant.grant_id
    assert renew(url, grant, ttl=30) == "lost"
    assert not may_write(url, grant)
    assert ask(url, "feeds", ttl=30).status == "held back"
    assert ask(url, "feeds", ttl=30, grant_id=grant.grant_id).status == "held back"
    set_clock(url, 24)
    assert renew(url, grant, ttl=30) == "lost"
    assert ask(url, "feeds", ttl=30).status == "held back"


@pytest.mark.exhaustive
@asynchronous
def test_a_clock_that_was_set_back_does_not_prolong_the_wait(pair: Pair) -> None:
    _, url = lose_a_grant(pair)
    set_clock(url, 3600)
    assert ask(url, "feeds", ttl=30).status == "held back"
    set_clock(url, 0)
    assert ask(url, "feeds", ttl=30).retry_after == 30
    set_clock(url, 29)
    assert ask(url, "feeds", ttl=30).status == "held back"
    set_clock(url, 30)
    acquire(url, "feeds", ttl=30)


@pytest.mark.exhaustive(beyond=1)
@either_kind
def test_a_grant_of_the_new_primary_is_valid(pair: Pair) -> None:
    pair.wait_caught_up()
    url = fail_over(pair)
    ask(url, "feeds", ttl=30)
    set_clock(url, 30)
    grant = acquire(url, "feeds", ttl=30)
    set_clock(url, 50)
    assert renew(url, grant, ttl=30) == "renewed"
    assert may_write(url, grant)
    assert release(url, grant) == "released"


@asynchronous
def test_a_stale_grant_does_not_affect_the_grant_with_the_same_token(pair: Pair) -> None:
    """The new primary's clock is behind by as much as it delayed others: then even the token is the same."""
    set_clock(pair.url, 100)
    stale, url = lose_a_grant(pair)
    set_clock(url, 70)
    assert ask(url, "feeds", ttl=30).status == "held back"
    set_clock(url, 100)
    current = acquire(url, "feeds", ttl=30)
    assert current.token == stale.token
    before = row(url, "feeds")
    assert renew(url, stale, ttl=30) == "lost"
    assert release(url, stale) == "lost"
    assert not may_write(url, stale)
    assert ask(url, "feeds", ttl=30, grant_id=stale.grant_id).status == "busy"
    assert row(url, "feeds") == before
    assert may_write(url, current)


@synchronous
def test_an_acknowledged_grant_is_on_a_synchronous_standby(pair: Pair) -> None:
    grant = acquire(pair.url, "feeds", ttl=30)
    url = fail_over(pair)
    assert row(url, "feeds").grant_id == grant.grant_id
    assert row(url, "feeds").token == grant.token


@pytest.mark.exhaustive
@synchronous
def test_an_isolated_old_primary_never_grants(pair: Pair) -> None:
    """Its standby was promoted, and grants. A grant that the old primary has committed only locally does not count."""
    release(pair.url, acquire(pair.url, "feeds", ttl=30))
    pair.wait_caught_up()
    pair.freeze()
    pair.promote()
    grant_id = uuid4()
    assert waits_for_the_standby(pair, grant_id)
    assert waits_for_the_standby(pair, grant_id)


def waits_for_the_standby(pair: Pair, grant_id: UUID) -> bool:
    """True if the request waits. When the wait is cancelled, it returns the grant with a warning, to be heeded."""
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(ask, pair.primary_url, "feeds", ttl=30, grant_id=grant_id)
        eventually(lambda: answer.done() or execute(pair.primary_url, WAITING_FOR_STANDBY) == [(1,)])
        waited = not answer.done()
        execute(pair.primary_url, STOP_WAITING_FOR_STANDBY)
        assert answer.result().status == "granted"
        return waited


@pytest.mark.exhaustive(beyond=1)
@either_kind
def test_waiters_of_the_old_primary_delay_no_one(pair: Pair) -> None:
    acquire(pair.url, "feeds", ttl=30)
    waits = "SELECT status FROM interlock.acquire_v1('feeds', gen_random_uuid(), 30, 'a test', wait => true)"
    assert execute(pair.url, waits) == [("busy",)]
    pair.wait_caught_up()
    url = fail_over(pair)
    ask(url, "feeds", ttl=30)
    assert execute(url, "SELECT * FROM interlock.waiters_v1('feeds')") == []
    set_clock(url, 30)
    acquire(url, "feeds", ttl=30)
