"""The cost while an old snapshot is open: neither former waiters nor old row versions of a lease are read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from support.postgres import execute
from support.protocol import DIRECTLY, LISTENER, Answer, Client, counted, meanwhile, queue, stop_at

# Entries of the index that finds the first waiter; those of deleted rows count too.
ENTRIES = "SELECT pg_stat_get_xact_tuples_returned('interlock.waiter_queue'::regclass)"


# Entries of the index of names: one for each page with versions of the row.
PLACES = "SELECT pg_stat_get_xact_tuples_returned('interlock.lease_pkey'::regclass)"
MANY_VERSIONS = """
    DO $$ BEGIN
        FOR time IN 1..100 LOOP
            UPDATE interlock.lease SET metadata = to_jsonb(repeat('x', 1500));
        END LOOP;
        UPDATE interlock.lease SET metadata = NULL;
    END $$
"""


@contextmanager
def back_up(url: str) -> Iterator[None]:
    """A long transaction keeps the current snapshot open."""
    with psycopg.connect(url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT count(*) FROM interlock.lease")
        yield


def with_token(url: str, grant: Answer, sql: str) -> Answer:
    """Returns the same grant with another token."""
    [[token]] = execute(url, f"UPDATE interlock.lease SET token = {sql} WHERE name = %s RETURNING token", grant.name)
    return grant._replace(token=token)


def without_full_reads(url: str, grant: Answer) -> Answer:
    """And the token is not one with which all waiters are read, regardless of where the queue begins."""
    return with_token(url, grant, "token | 1")


def held_by_the_last_of_a_long_queue(url: str, first: Client, second: Client) -> Answer:
    holder = first.acquire("feeds")
    for _ in range(100):
        waiter = second.wait("feeds", listener=LISTENER, direct=True)
        token = first.hand_over(holder).token
        assert token is not None
        holder = waiter._replace(token=token)
    assert first.renew(holder) == "renewed"
    return without_full_reads(url, holder)


def wait(client: Client, *, direct: bool = False) -> Answer:
    waiter = client.wait("feeds", listener=LISTENER, direct=direct)
    assert waiter.status == "busy"
    return waiter


def handed_over(client: Client, held: Answer) -> Callable[[], object]:
    waiter = wait(client, direct=True)

    def work() -> None:
        assert client.run(DIRECTLY, *held.triple) == [(waiter.grant_id,)]

    return work


def released_to_a_waiter(client: Client, held: Answer) -> Callable[[], object]:
    wait(client)
    return lambda: client.release(held)


def released_without_waiters(client: Client, held: Answer) -> Callable[[], object]:
    return lambda: client.release(held)


def released_in_a_batch(client: Client, held: Answer) -> Callable[[], object]:
    wait(client)
    return lambda: client.release_many([held], if_waited=True)


def kept_in_a_batch(client: Client, held: Answer) -> Callable[[], object]:
    return lambda: client.release_many([held], if_waited=True)


def acquired(client: Client, held: Answer) -> Callable[[], object]:
    client.release(held)
    return lambda: client.acquire("feeds")


def acquired_in_a_batch(client: Client, held: Answer) -> Callable[[], object]:
    client.release(held)
    return lambda: client.ask_many(["feeds"])


def refused(client: Client, held: Answer) -> Callable[[], object]:
    wait(client)
    client.release(held)
    return lambda: client.ask("feeds")


def passed_to_the_next(client: Client, held: Answer) -> Callable[[], object]:
    waiter = wait(client)
    wait(client)
    client.release(held)
    return lambda: client.abandon(waiter)


Step = Callable[[Client, Answer], Callable[[], object]]
STEPS: list[Step] = [
    handed_over,
    released_to_a_waiter,
    released_without_waiters,
    released_in_a_batch,
    kept_in_a_batch,
    acquired,
    acquired_in_a_batch,
    refused,
    passed_to_the_next,
]


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize("step", STEPS)
def test_former_waiters_are_not_read_again(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, step: Step
) -> None:
    with back_up(interlock_url):
        held = held_by_the_last_of_a_long_queue(interlock_url, first, second)
        assert counted(third, ENTRIES, step(third, held)) < 20


def queued(client: Client, held: Answer) -> Callable[[], object]:
    return lambda: wait(client)


def busy(client: Client, held: Answer) -> Callable[[], object]:
    return lambda: client.ask("feeds")


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize("step", [handed_over, released_to_a_waiter, released_without_waiters, acquired, queued, busy])
def test_old_versions_of_a_lease_are_not_read_again(
    interlock_url: str, first: Client, third: Client, listening: Client, step: Step
) -> None:
    with back_up(interlock_url):
        held = without_full_reads(interlock_url, first.acquire("feeds"))
        work = step(third, held)
        execute(interlock_url, MANY_VERSIONS)
        assert counted(third, PLACES, work) < 5


def begin(url: str, grant: Answer, at: str) -> Answer:
    """Set the moment at which the queue begins. The grant has a token with which not all waiters are read."""
    execute(url, f"UPDATE interlock.lease SET queue_from = {at} WHERE name = %s", grant.name)
    return without_full_reads(url, grant)


def test_a_waiter_that_comes_after_the_clock_was_set_back_is_seen(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    held = begin(interlock_url, first.acquire("feeds"), "clock_timestamp() + interval '1 hour'")
    waiter = second.wait("feeds", listener=LISTENER, direct=True)
    assert first.hand_over(held).offered == waiter.grant_id
    [[is_past]] = execute(interlock_url, "SELECT queue_from < clock_timestamp() FROM interlock.lease")
    assert is_past


def test_an_empty_queue_does_not_begin_in_the_future(interlock_url: str, first: Client) -> None:
    held = begin(interlock_url, first.acquire("feeds"), "clock_timestamp() + interval '1 hour'")
    assert first.release(held) == "released"
    [[is_past]] = execute(interlock_url, "SELECT queue_from < clock_timestamp() FROM interlock.lease")
    assert is_past


def test_a_waiter_from_before_the_queue_begins_is_seen_now_and_then(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    grant = first.acquire("feeds")
    waiter = second.wait("feeds", listener=LISTENER, direct=True)
    begin(interlock_url, grant, "clock_timestamp()")
    seen = with_token(interlock_url, grant, "(token / 64 + 1) * 64")
    assert first.hand_over(seen).offered == waiter.grant_id


def test_a_waiter_from_before_the_queue_begins_gets_the_free_lease_when_it_asks(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    grant = first.acquire("feeds")
    waiter = second.wait("feeds", listener=LISTENER, direct=True)
    assert first.hand_over(begin(interlock_url, grant, "clock_timestamp()")).offered is None
    assert second.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id).status == "granted"
    assert queue(interlock_url, "feeds") == []


@pytest.mark.parametrize("function", ["acquire_v1", "acquire_many_v1"])
def test_a_slow_arrival_does_not_come_before_the_queue_begins(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, function: str
) -> None:
    """It stops before it has the queue's lock; meanwhile another waiter comes, and the lease is handed over to it."""
    grant = first.acquire("feeds")
    asked = {"acquire_v1": "acquire_v1.name", "acquire_many_v1": "a.name"}[function]
    stop_at(interlock_url, second, function, "AND pg_try_advisory_xact_lock_shared(1229737036, ", of=asked)
    late: dict[str, Callable[[], Answer]] = {
        "acquire_v1": lambda: second.wait("feeds", listener=LISTENER),
        "acquire_many_v1": lambda: second.ask_many(["feeds"], wait=True, listener=LISTENER)[0],
    }
    with third.connection.transaction():
        third.run("SELECT pg_advisory_xact_lock(1)")
        with meanwhile(interlock_url, second, late[function]) as coming:
            waiter = first.wait("feeds", listener=LISTENER, direct=True)
            token = first.hand_over(grant).token
            assert token is not None
            handed = without_full_reads(interlock_url, waiter._replace(token=token))
            third.run("COMMIT; BEGIN")
    assert coming.result().status == "busy"
    assert first.hand_over(handed).offered == coming.result().grant_id
