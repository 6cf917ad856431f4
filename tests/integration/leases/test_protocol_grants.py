"""One grant at a time: who gets a lease, who may change it, and until when. Tested on the SQL functions alone."""

from collections.abc import Callable, Sequence
from uuid import uuid4

import psycopg
import pytest

from support.protocol import Answer, Client, is_blocked, meanwhile, stopped
from support.sql_leases import row, set_clock
from support.waiting import eventually

Ask = Callable[[Client, str], Answer]

alone_and_in_a_batch = pytest.mark.parametrize(
    "ask",
    [lambda client, name: client.ask(name), lambda client, name: client.ask_many(["another", name])[1]],
    ids=["alone", "in a batch"],
)


def test_the_first_of_two_requests_gets_it_and_the_second_gets_holder_and_remaining_time(
    interlock_url: str, first: Client, second: Client
) -> None:
    set_clock(interlock_url, 0)
    held = first.ask("feeds", ttl=30)
    refused = second.ask("feeds", ttl=5)
    assert held[2:] == ("granted", row(interlock_url, "feeds").token, 30, None, None)
    assert [*refused[2:]] == ["busy", None, None, 30, "first"]


@alone_and_in_a_batch
def test_a_lease_is_free_from_the_moment_it_expires_and_not_before(
    interlock_url: str, first: Client, second: Client, ask: Ask
) -> None:
    set_clock(interlock_url, 0)
    first.acquire("feeds", ttl=30)
    set_clock(interlock_url, 29.999999)
    assert ask(second, "feeds").status == "busy"
    set_clock(interlock_url, 30)
    assert ask(second, "feeds").status == "granted"
    assert ask(first, "feeds").status == "busy"


@alone_and_in_a_batch
def test_a_request_during_another_grant_gets_nothing(
    interlock_url: str, first: Client, second: Client, ask: Ask
) -> None:
    second.run("SELECT interlock.register_v1('{feeds, another}')")
    at = {"function": "acquire_v1", "before": "moment := interlock.now_v1();"}
    with stopped(interlock_url, first, lambda: first.ask("feeds"), **at) as taking:
        assert ask(second, "feeds").status == "locked"
    assert taking.result().status == "granted"
    assert ask(second, "feeds").status == "busy"


@pytest.mark.parametrize("function", ["acquire_v1", "acquire_many_v1"])
def test_a_request_that_saw_it_free_but_comes_second_gets_nothing(
    interlock_url: str, first: Client, second: Client, function: str
) -> None:
    """It stops within the deciding statement, after it has read the row and before it locks the row."""
    second.run("SELECT interlock.register_v1('{feeds}')")
    second.run("INSERT INTO interlock.waiter VALUES (gen_random_uuid(), 'feeds', '-infinity', NULL, '-infinity')")
    second.run(
        "CREATE OR REPLACE FUNCTION interlock.waits_v1(listener integer, seen_at timestamptz, offered_at timestamptz,"
        " moment timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
        f" IF pg_backend_pid() = {first.pid} THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;"
        " RETURN false; END $$"
    )
    with second.connection.transaction():
        second.run("SELECT pg_advisory_xact_lock(1)")
        work = first.ask if function == "acquire_v1" else lambda name: first.ask_many([name])[0]
        with meanwhile(interlock_url, first, lambda: work("feeds")) as asking:
            with Client(interlock_url, "third") as third:
                held = third.acquire("feeds")
            second.run("COMMIT; BEGIN")
    assert asking.result().status == "busy"
    assert row(interlock_url, "feeds").token == held.token


@alone_and_in_a_batch
def test_a_resend_finds_its_own_grant_and_the_remaining_time(
    interlock_url: str, first: Client, second: Client, ask: Ask
) -> None:
    set_clock(interlock_url, 0)
    first.run("SELECT interlock.register_v1('{feeds}')")
    held = ask(first, "feeds")
    before = row(interlock_url, "feeds")
    set_clock(interlock_url, 10)
    again = second.ask("feeds", grant_id=held.grant_id)
    in_a_batch = second.ask_many(["other", "feeds"], grant_ids=[uuid4(), held.grant_id], wait=True)[1]
    assert again[:5] == in_a_batch[:5] == ("feeds", held.grant_id, "granted", held.token, 20)
    assert row(interlock_url, "feeds") == before
    assert second.run("SELECT count(*) FROM interlock.waiter") == [(0,)]


def test_a_resend_of_an_expired_grant_is_a_new_grant(interlock_url: str, first: Client) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    set_clock(interlock_url, 30)
    again = first.ask("feeds", grant_id=held.grant_id)
    assert again.status == "granted"
    assert again.token > held.token
    assert first.renew(held) == "lost"


def others(held: Answer) -> Sequence[Answer]:
    """Returns grants that differ from this one in one attribute."""
    return (
        held._replace(token=held.token - 1),
        held._replace(token=held.token + 1),
        held._replace(grant_id=uuid4()),
        held._replace(name="unused"),
    )


def test_a_wrong_token_or_grant_id_changes_nothing(interlock_url: str, first: Client, second: Client) -> None:
    held = first.acquire("feeds")
    before = row(interlock_url, "feeds")
    for wrong in others(held):
        assert second.renew(wrong) == "lost"
        assert second.release(wrong) == "lost"
        with pytest.raises(psycopg.Error) as refusal:
            second.guard(wrong)
        assert refusal.value.sqlstate == "IL001"
    assert second.renew_many(others(held)) == ([1, 2, 3, 4], [])
    assert second.release_many(others(held)) == ["lost"] * 4
    assert row(interlock_url, "feeds") == before
    assert first.renew(held) == "renewed"


def test_a_former_holder_changes_nothing_of_its_successors(interlock_url: str, first: Client, second: Client) -> None:
    set_clock(interlock_url, 0)
    stale = first.acquire("feeds", ttl=30)
    set_clock(interlock_url, 30)
    held = second.acquire("feeds", ttl=30)
    before = row(interlock_url, "feeds")
    assert (first.renew(stale), first.release(stale)) == ("lost", "lost")
    assert first.ask("feeds", grant_id=stale.grant_id).status == "busy"
    assert row(interlock_url, "feeds") == before
    assert second.release(held) == "released"


def test_an_expired_lease_cannot_be_renewed_even_if_it_is_free(interlock_url: str, first: Client) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    set_clock(interlock_url, 29.999)
    assert first.renew(held, ttl=30) == "renewed"
    set_clock(interlock_url, 59.999)
    before = row(interlock_url, "feeds")
    assert first.renew(held, ttl=30) == "lost"
    assert first.renew_many([held]) == ([1], [])
    assert row(interlock_url, "feeds") == before
    assert first.release(held) == "released"


def test_a_renewal_counts_from_its_lock_on_the_row_and_may_change_the_ttl(interlock_url: str, first: Client) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    set_clock(interlock_url, 10)
    assert first.run("SELECT * FROM interlock.renew_v1(%s, %s, %s, 60)", *held.triple) == [("renewed", 60)]
    assert row(interlock_url, "feeds").expires_at == "2031-01-01 00:01:10+00"


def test_a_grant_counts_from_its_lock_on_the_row(interlock_url: str, first: Client) -> None:
    """A statement that waited long before it reached the row does not grant a time that is over already."""
    set_clock(interlock_url, 0)
    first.run("SELECT interlock.register_v1('{feeds}')")
    at = {"function": "acquire_v1", "before": "moment := interlock.now_v1();"}
    with stopped(interlock_url, first, lambda: first.ask("feeds", ttl=30), **at) as taking:
        set_clock(interlock_url, 100)
    assert taking.result().remaining == 30
    assert row(interlock_url, "feeds").expires_at == "2031-01-01 00:02:10+00"


def test_a_slow_request_does_not_shorten_a_lease_that_was_renewed_meanwhile(
    interlock_url: str, first: Client, second: Client
) -> None:
    """A clock that was set back leaves leases that end too far in the future; this one only looks like that."""
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    at = {"function": "acquire_many_v1", "before": "WITH ahead"}
    with stopped(interlock_url, second, lambda: second.ask_many(["feeds"]), **at):
        set_clock(interlock_url, 20)
        assert first.renew(held, ttl=30) == "renewed"
        before = row(interlock_url, "feeds")
    assert row(interlock_url, "feeds") == before


def test_after_a_clock_was_set_back_no_request_waits_for_another_to_correct_a_row(
    interlock_url: str, first: Client, second: Client, third: Client
) -> None:
    set_clock(interlock_url, 3600)
    first.ask_many(["a", "b"])
    first.run("SELECT interlock.register_v1('{a,b}')")
    grants = first.ask_many(["a", "b"], ttl=30)
    set_clock(interlock_url, 0)
    with third.connection.transaction():
        third.run("SELECT FROM interlock.lease WHERE name = 'a' FOR UPDATE")
        assert [answer.status for answer in second.ask_many(["b", "a"])] == ["busy", "busy"]
    assert [answer.retry_after for answer in second.ask_many(["b", "a"])] == [30, 30]
    assert [answer.status for answer in grants] == ["granted", "granted"]


BAD = [
    ("acquire_v1('', gen_random_uuid(), 30, 'me')", "cannot be the name of a lease"),
    ("acquire_v1(E'a\\nb', gen_random_uuid(), 30, 'me')", "cannot be the name of a lease"),
    ("acquire_v1(repeat('é', 128), gen_random_uuid(), 30, 'me')", "cannot be the name of a lease"),
    ("register_v1(ARRAY['good', ''])", "cannot be the name of a lease"),
    ("acquire_v1(NULL, gen_random_uuid(), 30, 'me')", "needs a name"),
    ("acquire_v1('a', NULL, 30, 'me')", "a grant_id"),
    *((f"acquire_v1('a', gen_random_uuid(), {ttl}, 'me')", "a ttl of 0.1 to 86400") for ttl in (
        "NULL", "0", "-1", "0.09", "86401", "'NaN'", "'infinity'")),
    *((f"renew_v1('a', 1, gen_random_uuid(), {ttl})", "between 0.1 and 86400") for ttl in (
        "NULL", "0", "-1", "86401", "'NaN'", "'infinity'")),
    *((f"acquire_many_v1('{{a,b}}', {ids}, {ttls}, NULL, NULL, 'me', NULL, NULL, NULL)", "needs a name, a grant_id")
      for ids, ttls in (
        ("ARRAY[gen_random_uuid()]", "'{30,30}'"),
        ("ARRAY[gen_random_uuid(), NULL]", "'{30,30}'"),
        ("ARRAY[gen_random_uuid(), gen_random_uuid()]", "'{30}'"),
        ("ARRAY[gen_random_uuid(), gen_random_uuid()]", "'{30,NULL}'"),
        ("ARRAY[gen_random_uuid(), gen_random_uuid()]", "'{30,0}'"))),
]  # fmt: skip


@pytest.mark.exhaustive(beyond=12)
@pytest.mark.parametrize(("call", "complaint"), BAD)
def test_invalid_arguments_are_refused_before_any_change(first: Client, call: str, complaint: str) -> None:
    held = first.acquire("a")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=complaint):
        first.run(f"SELECT interlock.{call}")
    assert first.run("SELECT name, token FROM interlock.lease") == [("a", held.token)]


def test_a_release_waits_for_no_guard_and_a_grant_waits_for_all(
    interlock_url: str, first: Client, second: Client, third: Client
) -> None:
    held = first.acquire("feeds")
    with second.connection.transaction():
        second.guard(held)
        assert first.renew(held) == "renewed"
        assert first.release(held) == "released"
        assert third.ask("feeds").status == "locked"
        assert not is_blocked(interlock_url, third)
    eventually(lambda: third.ask("feeds").status == "granted")
