"""Scenarios of two transactions and one name, in the orders that matter; a scenario raises if the name could have two
owners.

A statement that waits for the other transaction is ended by the connections' own `lock_timeout`, and raises too.
"""

import psycopg

from interlock.coordination.claims import Claimed, Claims, Pending, Released, Taken
from interlock.errors import RetryTransaction


def an_open_claim_is_pending(names: Claims, one: psycopg.Connection, two: psycopg.Connection) -> None:
    assert isinstance(names.claim(one, "mydb", "A"), Claimed)
    assert names.claim(two, "mydb", "B") == Pending("dns", "mydb")
    assert names.claim(two, "mydb", "A") == Pending("dns", "mydb")
    one.commit()
    match names.claim(two, "mydb", "B"):
        case Taken(owner="A"):
            two.commit()
        case other:
            raise AssertionError(other)


def an_open_release_is_taken_until_it_is_committed(
    names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    names.claim(one, "mydb", "A")
    one.commit()
    assert isinstance(names.release(one, "mydb", "A", gone=True), Released)
    assert isinstance(names.claim(two, "mydb", "B"), Taken)
    assert names.claim(two, "mydb", "A") == Pending("dns", "mydb")
    assert names.release(two, "mydb", "A", gone=True) == Pending("dns", "mydb")
    one.commit()
    assert isinstance(names.claim(two, "mydb", "A"), Released)
    assert isinstance(names.claim(two, "mydb", "B"), Claimed)
    two.commit()


def nobody_releases_what_an_open_transaction_relies_on(
    names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    """A repetition that was answered "yours" may create resources: until its end the name must not be released."""
    names.claim(one, "mydb", "A")
    one.commit()
    again = names.claim(one, "mydb", "A")
    assert isinstance(again, Claimed)
    assert again.replay
    assert names.release(two, "mydb", "A", gone=True) == Pending("dns", "mydb")
    two.commit()
    one.commit()
    assert isinstance(names.release(two, "mydb", "A", gone=True), Released)


def an_old_snapshot_takes_nothing(names: Claims, one: psycopg.Connection, two: psycopg.Connection) -> None:
    two.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    two.execute("SELECT 1")
    names.claim(one, "mydb", "A")
    one.commit()
    _must_be_tried_again(names, two, "B")
    assert isinstance(names.claim(two, "mydb", "B"), Taken)


def an_old_snapshot_does_not_see_its_own_claim_live_on(
    names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    names.claim(one, "mydb", "A")
    one.commit()
    two.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    two.execute("SELECT 1")
    names.release(one, "mydb", "A", gone=True)
    names.claim(one, "mydb", "B")
    one.commit()
    _must_be_tried_again(names, two, "A")
    assert isinstance(names.claim(two, "mydb", "A"), Taken)


def an_old_snapshot_waits_for_no_open_transfer(names: Claims, one: psycopg.Connection, two: psycopg.Connection) -> None:
    two.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    two.execute("SELECT 1")
    names.claim(one, "mydb", "A")
    one.commit()
    names.transfer(one, "mydb", "A", "B")
    assert names.claim(two, "mydb", "C") == Pending("dns", "mydb")
    two.rollback()
    one.commit()
    assert isinstance(names.claim(two, "mydb", "C"), Taken)


def a_late_repetition_is_refused(names: Claims, one: psycopg.Connection, two: psycopg.Connection) -> None:
    names.claim(one, "mydb", "A")
    names.release(one, "mydb", "A", gone=True)
    one.commit()
    assert isinstance(names.claim(two, "mydb", "A"), Released)
    assert isinstance(names.claim(one, "mydb", "B"), Claimed)


def two_in_opposite_order_do_not_deadlock(names: Claims, one: psycopg.Connection, two: psycopg.Connection) -> None:
    assert isinstance(names.claim(one, "a", "A"), Claimed)
    assert isinstance(names.claim(two, "b", "B"), Claimed)
    assert isinstance(names.claim(one, "b", "A", timeout=0.05), Pending)
    assert isinstance(names.claim(two, "a", "B", timeout=0.05), Pending)
    one.rollback()
    assert isinstance(names.claim(two, "a", "B"), Claimed)


def several_are_all_or_none(names: Claims, one: psycopg.Connection, two: psycopg.Connection) -> None:
    names.claim(one, "b", "A")
    one.commit()
    kinds = [type(result).__name__ for result in names.claim_all(two, ["c", "b", "a"], "B")]
    assert kinds == ["Free", "Taken", "Free"]
    two.commit()
    assert [owned.name for owned in names.owned(two)] == ["b"]


def of_several_what_is_ones_own_is_told_and_kept(
    names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    """Also if another of the names belongs to another owner."""
    names.claim(one, "a", "B")
    names.claim(one, "b", "A")
    one.commit()
    told = names.claim_all(two, ["a", "b", "c"], "B")
    assert [type(result).__name__ for result in told] == ["Claimed", "Taken", "Free"]
    assert names.release(one, "a", "B", gone=True) == Pending("dns", "a")
    one.commit()
    two.commit()
    assert isinstance(names.release(one, "a", "B", gone=True), Released)


def _must_be_tried_again(names: Claims, connection: psycopg.Connection, owner: str) -> None:
    try:
        result = names.claim(connection, "mydb", owner)
    except RetryTransaction:
        connection.rollback()
    else:
        raise AssertionError(result)


SCENARIOS = [
    an_open_claim_is_pending,
    an_open_release_is_taken_until_it_is_committed,
    nobody_releases_what_an_open_transaction_relies_on,
    an_old_snapshot_takes_nothing,
    an_old_snapshot_does_not_see_its_own_claim_live_on,
    an_old_snapshot_waits_for_no_open_transfer,
    a_late_repetition_is_refused,
    two_in_opposite_order_do_not_deadlock,
    several_are_all_or_none,
    of_several_what_is_ones_own_is_told_and_kept,
]
