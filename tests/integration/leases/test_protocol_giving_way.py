"""Who takes its lease again at once gives way to whoever waits and to guards, waits for nobody and misses nobody."""

import psycopg
import pytest

from support.granting_anew import ONCE_LOCKED, Again, alone_and_in_a_batch, granted
from support.protocol import EAR, JUST_QUEUED, Answer, Client, meanwhile, queue, stop_at, stopped
from support.sql_leases import row

at_each_level = pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])


def refusal_of(client: Client, grant: Answer) -> str | None:
    """What the guard of that grant fails with."""
    with pytest.raises(psycopg.Error) as refusal:
        client.guard(grant)
    return refusal.value.sqlstate


@pytest.mark.parametrize("listener", [EAR, 8, None], ids=["alive", "dead", "asking now and then"])
@alone_and_in_a_batch
def test_it_gives_way_to_whoever_is_in_the_queue(
    interlock_url: str, first: Client, second: Client, ear: Client, again: Again, listener: int | None
) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", listener=listener)
    before, waiting = row(interlock_url, "feeds"), queue(interlock_url, "feeds")
    assert again(first, held) is None
    assert (row(interlock_url, "feeds"), queue(interlock_url, "feeds")) == (before, waiting)
    assert first.release(held) == "released"


@pytest.mark.parametrize("lock", ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"])
@alone_and_in_a_batch
def test_a_row_that_somebody_has_locked_is_left_and_not_waited_for(
    interlock_url: str, first: Client, second: Client, again: Again, lock: str
) -> None:
    held = first.acquire("feeds")
    before = row(interlock_url, "feeds")
    with second.connection.transaction():
        second.run(f"SELECT FROM interlock.lease WHERE name = 'feeds' {lock}")
        assert again(first, held) is None
    assert row(interlock_url, "feeds") == before
    assert again(first, held) is not None


@at_each_level
@alone_and_in_a_batch
def test_it_gives_way_to_a_transaction_that_carries_the_guard(
    interlock_url: str, first: Client, second: Client, again: Again, level: str
) -> None:
    held = first.acquire("feeds")
    before = row(interlock_url, "feeds")
    second.run(f"BEGIN ISOLATION LEVEL {level}")
    second.guard(held)
    assert again(first, held) is None
    assert row(interlock_url, "feeds") == before
    second.run("COMMIT")
    assert again(first, held) is not None


@at_each_level
@alone_and_in_a_batch
def test_the_guard_of_the_old_grant_fails_afterwards(first: Client, second: Client, again: Again, level: str) -> None:
    held = first.acquire("feeds")
    anew = granted(again(first, held))
    second.run(f"BEGIN ISOLATION LEVEL {level}")
    assert refusal_of(second, held) == "IL001"
    second.run("ROLLBACK")
    second.run(f"BEGIN ISOLATION LEVEL {level}")
    second.guard(anew)
    second.run("COMMIT")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@alone_and_in_a_batch
def test_the_guard_of_the_old_grant_fails_also_by_a_snapshot_of_before(
    first: Client, second: Client, again: Again, level: str
) -> None:
    """There the row is seen as it was: that it was changed since has to stop it."""
    held = first.acquire("feeds")
    second.run(f"BEGIN ISOLATION LEVEL {level}")
    second.run("SELECT count(*) FROM interlock.lease")
    assert again(first, held) is not None
    assert refusal_of(second, held) == "40001"
    second.run("ROLLBACK")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@alone_and_in_a_batch
def test_who_sees_its_grant_by_a_snapshot_of_before_another_had_it_fails(
    interlock_url: str, first: Client, second: Client, again: Again, level: str
) -> None:
    held = first.acquire("feeds")
    second.acquire("another")
    second.run(f"BEGIN ISOLATION LEVEL {level}")
    second.run("SELECT count(*) FROM interlock.lease")
    first.release(held)
    taken = first.acquire("feeds")
    with pytest.raises(psycopg.errors.SerializationFailure):
        again(second, held)
    second.run("ROLLBACK")
    assert row(interlock_url, "feeds").grant_id == taken.grant_id


@alone_and_in_a_batch
def test_who_saw_its_grant_and_came_to_change_it_after_another_had_it_gets_nothing(
    interlock_url: str, first: Client, second: Client, third: Client, again: Again
) -> None:
    """It stops in the middle of the statement that decides, after it has read the row and before it locks it."""
    held = first.acquire("feeds")
    stop_at(interlock_url, first, ONCE_LOCKED[again]["function"], "AND (SELECT true FROM interlock.waiter w")
    with second.connection.transaction():
        second.run("SELECT pg_advisory_xact_lock(1)")
        with meanwhile(interlock_url, first, lambda: again(first, held)) as changing:
            assert third.release(held) == "released"
            taken = third.acquire("feeds")
            second.run("COMMIT; BEGIN")
    assert changing.result() is None
    assert row(interlock_url, "feeds")[:2] == (taken.token, taken.grant_id)


@alone_and_in_a_batch
def test_whoever_is_just_coming_into_the_queue_is_told_by_the_next_release(
    interlock_url: str, first: Client, second: Client, ear: Client, again: Again
) -> None:
    """It has not committed when the lease is granted anew, so nobody gives way to it."""
    held = first.acquire("feeds")
    with stopped(interlock_url, second, lambda: second.wait("feeds", listener=EAR), **JUST_QUEUED) as coming:
        anew = granted(again(first, held))
    waiter = coming.result()
    assert waiter.status == "busy"
    assert queue(interlock_url, "feeds") == [(waiter.grant_id, False)]
    assert again(first, anew) is None
    assert first.release(anew) == "released"
    assert ear.heard() == [waiter.grant_id]


@alone_and_in_a_batch
def test_whoever_comes_into_the_queue_while_it_is_granted_anew_is_told_by_the_next_release(
    interlock_url: str, first: Client, second: Client, ear: Client, again: Again
) -> None:
    held = first.acquire("feeds")
    with stopped(interlock_url, first, lambda: again(first, held), **ONCE_LOCKED[again]) as changing:
        waiter = second.wait("feeds", listener=EAR)
    anew = granted(changing.result())
    assert waiter.status == "busy"
    assert again(first, anew) is None
    assert first.release(anew) == "released"
    assert ear.heard() == [waiter.grant_id]
