"""Breaking a lease, the record of it, and the listing of leases."""

from uuid import uuid4

import psycopg
import pytest

from support.protocol import LISTENER, Client, queue
from support.sql_leases import row, set_clock

DONE = """
    SELECT name, token, holder, immediate, terminated, reason, done_by, done_at::text
      FROM interlock.lease_intervention ORDER BY id
"""


def refused(client: Client, *grant: object) -> bool:
    with pytest.raises(psycopg.Error) as refusal:
        client.run("SELECT interlock.guard_v1(%s, %s, %s)", *grant)
    return refusal.value.sqlstate == "IL001"


@pytest.mark.parametrize("immediate", [True, False])
def test_a_broken_grant_cannot_be_used(interlock_url: str, first: Client, second: Client, immediate: bool) -> None:
    held = first.acquire("feeds")
    assert len(second.break_open("feeds", immediate=immediate)) == 1
    before = row(interlock_url, "feeds")
    assert first.renew(held) == "lost"
    assert first.renew_many([held]) == ([1], [])
    assert refused(first, *held.triple)
    assert row(interlock_url, "feeds") == before


@pytest.mark.parametrize("many", [True, False])
def test_the_release_of_a_broken_grant_frees_the_lease_and_no_other_release_does(
    interlock_url: str, first: Client, second: Client, third: Client, many: bool
) -> None:
    held = first.acquire("feeds")
    second.break_open("feeds", immediate=False)
    before = row(interlock_url, "feeds")
    for other in (held._replace(grant_id=uuid4()), held._replace(token=held.token - 1)):
        assert second.release(other) == "lost"
        assert row(interlock_url, "feeds") == before
    if many:
        first.release_many([held])
    else:
        assert first.release(held) == "lost"
    assert third.ask("feeds").status == "granted"
    assert first.release(held) == "lost"
    assert third.ask("feeds").status == "busy"


def test_a_broken_lease_is_not_granted_while_its_holder_may_trust_it(
    interlock_url: str, first: Client, second: Client, third: Client
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    set_clock(interlock_url, 10)
    assert second.break_open("feeds", immediate=False) == [(held.token, "first", None, None, 20, [])]
    assert third.ask("feeds").status == "busy"
    assert first.ask("feeds", grant_id=held.grant_id).status == "busy"
    set_clock(interlock_url, 30)
    assert third.acquire("feeds").token > held.token


def test_a_lease_that_is_broken_at_once_goes_to_the_first_waiter(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    waiter = third.wait("feeds", listener=LISTENER)
    assert second.break_open("feeds", immediate=True) == [(held.token, "first", None, None, 0, [])]
    assert listening.notified() == [waiter.grant_id]
    assert third.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id).token > held.token


def test_a_broken_lease_may_still_be_broken_at_once(
    interlock_url: str, first: Client, second: Client, third: Client
) -> None:
    first.acquire("feeds")
    second.break_open("feeds", immediate=False)
    assert third.ask("feeds").status == "busy"
    assert second.break_open("feeds", immediate=False) == []
    assert len(second.break_open("feeds", immediate=True)) == 1
    assert third.ask("feeds").status == "granted"


def test_a_free_lease_cannot_be_broken(interlock_url: str, first: Client, second: Client) -> None:
    set_clock(interlock_url, 0)
    first.release(first.acquire("released"))
    first.acquire("expired", ttl=30)
    set_clock(interlock_url, 30)
    for name in ("released", "expired", "unknown"):
        assert second.break_open(name, immediate=True) == []
        assert second.break_open(name, immediate=False) == []
    assert second.run(DONE) == []


def test_every_intervention_is_recorded(interlock_url: str, first: Client, second: Client) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds")
    second.run("SELECT interlock.break_v1('feeds', false, false, 'it hangs', 'olga@ops')")
    second.break_open("feeds", immediate=True)
    assert second.run(DONE) == [
        ("feeds", held.token, "first", False, [], "it hangs", "olga@ops", "2031-01-01 00:00:00+00"),
        ("feeds", held.token, "first", True, [], "a test", "tester", "2031-01-01 00:00:00+00"),
    ]


def test_an_intervention_needs_a_name(interlock_url: str, first: Client) -> None:
    first.acquire("feeds")
    before = row(interlock_url, "feeds")
    with pytest.raises(psycopg.errors.NotNullViolation):
        first.run("SELECT interlock.break_v1('feeds', true, false, 'it hangs', NULL)")
    assert row(interlock_url, "feeds") == before


def test_an_intervention_is_as_durable_as_a_grant(first: Client) -> None:
    first.acquire("feeds")
    first.run("SET synchronous_commit = off")
    with first.connection.transaction():
        first.break_open("feeds", immediate=True)
        assert first.run("SHOW synchronous_commit") == [("on",)]


def test_the_listing_of_leases(interlock_url: str, first: Client, second: Client, listening: Client) -> None:
    set_clock(interlock_url, 0)
    held = first.run(
        "SELECT token FROM interlock.acquire_v1('held', gen_random_uuid(), 30, 'worker-1', '{\"job\": 7}',"
        " host => 'host-a', pid => 4711)"
    )[0][0]
    first.acquire("broken", ttl=30)
    first.break_open("broken", immediate=False)
    first.acquire("expired", ttl=5)
    first.release(first.acquire("released"))
    second.wait("held", listener=LISTENER)
    second.wait("held", listener=8)
    set_clock(interlock_url, 10)
    seen = "SELECT name, held, broken, holder, host, pid, metadata, ttl, expires_at::text, remaining, waiters"
    assert first.run(f"{seen} FROM interlock.leases_v1()") == [
        ("broken", False, True, "first", None, None, None, 30, "2031-01-01 00:00:30+00", 20, 0),
        ("expired", False, False, "first", None, None, None, 5, "2031-01-01 00:00:05+00", 0, 0),
        ("held", True, False, "worker-1", "host-a", 4711, {"job": 7}, 30, "2031-01-01 00:00:30+00", 20, 1),
        ("released", False, False, "first", None, None, None, 30, None, 0, 0),
    ]
    assert first.run("SELECT name, token FROM interlock.leases_v1('held')") == [("held", held)]
    assert first.run("SELECT name FROM interlock.leases_v1('unknown')") == []


def test_live_waiters_are_listed_in_order(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    set_clock(interlock_url, 0)
    first.acquire("feeds", ttl=60)
    second.wait("feeds", listener=LISTENER)
    set_clock(interlock_url, 5)
    second.wait("feeds", listener=8)
    set_clock(interlock_url, 10)
    third.wait("feeds")
    set_clock(interlock_url, 12)
    seen = "SELECT holder, enqueued_at::text, waited FROM interlock.waiters_v1('feeds')"
    assert first.run(seen) == [("second", "2031-01-01 00:00:00+00", 12), ("third", "2031-01-01 00:00:10+00", 2)]
    assert len(queue(interlock_url, "feeds")) == 3


def test_the_listing_does_not_let_its_reader_act_as_the_holder(first: Client) -> None:
    held = first.acquire("feeds")
    waiter = first.wait("feeds")
    shown = str(
        first.run("SELECT * FROM interlock.leases_v1()") + first.run("SELECT * FROM interlock.waiters_v1('feeds')")
    )
    assert str(held.grant_id) not in shown
    assert str(waiter.grant_id) not in shown
