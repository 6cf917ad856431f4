"""Callers with an old snapshot: a correct answer or a serialization failure, and never two holders."""

from collections.abc import Callable

import psycopg
import pytest

from support.protocol import LISTENER, Answer, Client
from support.sql_leases import row, set_clock

at_each_level = pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
Ask = Callable[[Client], Answer]
alone_and_in_a_batch = pytest.mark.parametrize(
    "ask",
    [lambda client: client.ask("feeds"), lambda client: client.ask_many(["feeds"])[0]],
    ids=["alone", "in a batch"],
)


def begin(client: Client, level: str) -> None:
    """Take the snapshot of this moment."""
    client.run(f"BEGIN ISOLATION LEVEL {level}")
    client.run("SELECT count(*) FROM interlock.lease")


@pytest.mark.exhaustive(beyond=2)
@at_each_level
@alone_and_in_a_batch
def test_a_snapshot_that_sees_a_taken_lease_as_free_fails(
    interlock_url: str, first: Client, second: Client, level: str, ask: Ask
) -> None:
    first.run("SELECT interlock.register_v1('{feeds}')")
    begin(second, level)
    held = first.acquire("feeds")
    with pytest.raises(psycopg.errors.SerializationFailure):
        ask(second)
    second.run("ROLLBACK")
    assert row(interlock_url, "feeds").grant_id == held.grant_id
    assert ask(second).status == "busy"


@pytest.mark.exhaustive(beyond=2)
@at_each_level
@alone_and_in_a_batch
def test_a_snapshot_that_sees_a_released_lease_as_held_gets_held(
    first: Client, second: Client, level: str, ask: Ask
) -> None:
    held = first.acquire("feeds")
    begin(second, level)
    first.release(held)
    assert ask(second).status == "busy"
    second.run("COMMIT")
    assert ask(second).status == "granted"


@pytest.mark.exhaustive(beyond=2)
@at_each_level
@alone_and_in_a_batch
def test_of_two_snapshots_that_see_it_free_one_gets_it(first: Client, second: Client, level: str, ask: Ask) -> None:
    first.run("SELECT interlock.register_v1('{feeds}')")
    begin(first, level)
    begin(second, level)
    assert ask(first).status == "granted"
    assert ask(second).status == "locked"
    first.run("COMMIT")
    with pytest.raises(psycopg.errors.SerializationFailure):
        ask(second)
    second.run("ROLLBACK")


@at_each_level
def test_a_grant_that_was_lost_since_the_snapshot_is_neither_renewed_nor_released(
    interlock_url: str, first: Client, second: Client, third: Client, level: str
) -> None:
    set_clock(interlock_url, 0)
    stale = first.acquire("feeds", ttl=30)
    for attempt in (second.renew, second.release):
        begin(second, level)
        third.break_open("feeds", immediate=True)
        held = third.acquire("feeds", ttl=30)
        with pytest.raises(psycopg.errors.SerializationFailure):
            attempt(stale)
        second.run("ROLLBACK")
        assert row(interlock_url, "feeds").grant_id == held.grant_id
        stale = held


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_with_that_default_everything_works(interlock_url: str, first: Client, listening: Client, level: str) -> None:
    with Client(
        interlock_url, "strict", options=f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"
    ) as strict:
        held = strict.acquire("feeds")
        assert strict.renew(held) == "renewed"
        waiter = strict.wait("feeds", listener=LISTENER)
        assert strict.release(held) == "released"
        assert listening.notified() == [waiter.grant_id]
        held = strict.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id)
        assert held.status == "granted"
        assert first.ask("feeds").status == "busy"
        strict.abandon(strict.wait("feeds", listener=LISTENER))
        assert strict.run("SELECT interlock.sweep_v1(0)") == [(0,)]
