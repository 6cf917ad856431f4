"""The result of a claim: first, repeated, contended, released, transferred."""

import threading

import psycopg
import pytest

from interlock import Interlock, errors
from interlock.coordination.claims import (
    Claimed,
    Claims,
    Kept,
    NotClaimed,
    Pending,
    Released,
    Taken,
    dns_label,
)
from support.name_locks import transaction
from support.plans import plans
from support.postgres import execute
from support.protocol import rewrite
from support.waiting import eventually

SLEEPERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"


def claimed(names: Claims, connection: psycopg.Connection, name: str, owner: str) -> Claimed:
    result = names.claim(connection, name, owner)
    assert isinstance(result, Claimed)
    return result


def test_the_first_claim_is_the_owners(names: Claims, one: psycopg.Connection) -> None:
    claim = claimed(names, one, "mydb", "A")
    assert (claim.scope, claim.name, claim.owner, claim.replay) == ("dns", "mydb", "A", False)
    assert claim.since.tzinfo is not None


def test_a_repetition_gets_the_same_claim(names: Claims, one: psycopg.Connection, interlock_url: str) -> None:
    first = claimed(names, one, "mydb", "A")
    again = claimed(names, one, "mydb", "A")
    one.commit()
    later = claimed(names, one, "mydb", "A")
    assert again == later
    assert (again.id, again.since, again.replay) == (first.id, first.since, True)
    assert execute(interlock_url, "SELECT count(*) FROM interlock.claim") == [(1,)]


def test_another_owner_gets_the_owner_and_the_time(
    names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    first = claimed(names, one, "mydb", "A")
    one.commit()
    assert names.claim(two, "mydb", "B") == Taken("dns", "mydb", "A", first.since)


def test_a_name_that_was_released_can_be_claimed_again(names: Claims, one: psycopg.Connection) -> None:
    claimed(names, one, "mydb", "A")
    one.commit()
    assert isinstance(names.release(one, "mydb", "A", gone=True), Released)
    one.commit()
    claimed(names, one, "mydb", "C")
    assert [(past.owner, past.released_at is None) for past in names.history(one, "mydb")] == [
        ("A", False),
        ("C", True),
    ]


def test_a_former_owner_claims_it_again_with_again(names: Claims, one: psycopg.Connection) -> None:
    first = claimed(names, one, "mydb", "A")
    gone = names.release(one, "mydb", "A", gone=True)
    assert isinstance(gone, Released)
    late = names.claim(one, "mydb", "A")
    assert isinstance(late, Released)
    assert (late.id, late.released_at) == (first.id, gone.released_at)
    again = names.claim(one, "mydb", "A", again=True)
    assert isinstance(again, Claimed)
    assert again.id > first.id
    assert claimed(names, one, "mydb", "A").id == again.id


@pytest.mark.parametrize("nothing", [None, ""])
def test_an_empty_name_is_not_claimed(names: Claims, one: psycopg.Connection, nothing: str | None) -> None:
    assert names.claim(one, nothing, "A") is None
    assert names.claim(one, nothing, "B") is None
    assert names.claim_all(one, [nothing], "B") == []


def test_scopes_are_independent(one: psycopg.Connection, interlock_url: str) -> None:
    locks = Interlock(interlock_url)
    assert isinstance(locks.claim(one, "dns", "mydb", "A"), Claimed)
    assert isinstance(locks.claim(one, "bucket", "mydb", "B"), Claimed)
    assert isinstance(locks.claim(one, "dns", "mydb", "B"), Taken)


def test_a_name_is_kept_until_its_resource_is_gone(
    names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    claimed(names, one, "mydb", "A")
    one.commit()
    assert names.release(one, "mydb", "A", gone=False) == Kept("dns", "mydb", "A")
    one.commit()
    assert isinstance(names.claim(two, "mydb", "B"), Taken)


def test_only_the_owner_releases_it(names: Claims, one: psycopg.Connection) -> None:
    claimed(names, one, "mydb", "A")
    assert isinstance(names.release(one, "mydb", "B", gone=True), Taken)
    assert isinstance(names.transfer(one, "mydb", "B", "C"), Taken)
    assert names.release(one, "other", "B", gone=True) == NotClaimed("dns", "other")


def test_a_repeated_release_keeps_the_first_time(names: Claims, one: psycopg.Connection) -> None:
    claimed(names, one, "mydb", "A")
    first = names.release(one, "mydb", "A", gone=True)
    one.commit()
    claimed(names, one, "mydb", "B")
    again = names.release(one, "mydb", "A", gone=True)
    assert isinstance(first, Released)
    assert isinstance(again, Released)
    assert (again.released_at, again.replay, first.replay) == (first.released_at, True, False)
    assert [owned.owner for owned in names.owned(one)] == ["B"]


def test_a_transfer_is_in_the_history_of_both_owners(names: Claims, one: psycopg.Connection) -> None:
    claimed(names, one, "mydb", "A")
    given = names.transfer(one, "mydb", "A", "B")
    assert isinstance(given, Released)
    assert given.passed_to == "B"
    again = names.transfer(one, "mydb", "A", "B")
    assert isinstance(again, Released)
    assert again.replay
    assert claimed(names, one, "mydb", "B").since == given.released_at
    assert isinstance(names.claim(one, "mydb", "A"), Taken)
    assert [(past.owner, past.passed_to) for past in names.history(one, "mydb")] == [("A", "B"), ("B", None)]


def test_several_names_at_once_are_sorted_and_deduplicated(names: Claims, one: psycopg.Connection) -> None:
    results = names.claim_all(one, ["b", "A", "a", None, "c"], "A")
    assert [result.name for result in results] == ["a", "b", "c"]
    assert all(isinstance(result, Claimed) for result in results)
    assert [owned.name for owned in names.owned(one, owner="A")] == ["a", "b", "c"]
    assert names.owned(one, owner="B") == []


def test_a_waiter_gets_taken_when_the_other_commits(names: Claims, interlock_url: str) -> None:
    results: list[object] = []

    def wait() -> None:
        with transaction(interlock_url) as connection:
            results.append(names.claim(connection, "mydb", "B", timeout=9))

    with transaction(interlock_url) as connection:
        first = claimed(names, connection, "mydb", "A")
        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: execute(interlock_url, SLEEPERS)[0][0])
    waiter.join()
    assert results == [Taken("dns", "mydb", "A", first.since)]


def test_a_waiter_gets_the_name_when_the_other_rolls_back(names: Claims, interlock_url: str) -> None:
    results: list[object] = []

    def wait() -> None:
        with transaction(interlock_url) as connection:
            results.append(names.claim(connection, "mydb", "B", timeout=9))

    with transaction(interlock_url) as connection:
        claimed(names, connection, "mydb", "A")
        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: execute(interlock_url, SLEEPERS)[0][0])
        connection.rollback()
    waiter.join()
    assert [type(result) for result in results] == [Claimed]


def test_after_the_timeout_the_transaction_is_still_good(
    names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    claimed(names, one, "mydb", "A")
    assert names.claim(two, "mydb", "B", timeout=0.05) == Pending("dns", "mydb")
    claimed(names, two, "other", "B")
    two.commit()
    assert [owned.name for owned in names.owned(two)] == ["other"]


def test_a_rollback_to_a_savepoint_undoes_only_the_claim(
    names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    claimed(names, one, "first", "A")
    with one.transaction(force_rollback=True):
        claimed(names, one, "second", "A")
    claimed(names, two, "second", "B")
    assert isinstance(names.claim(two, "first", "B"), Pending)
    one.commit()
    assert isinstance(names.claim(two, "first", "B"), Taken)


def test_a_rolled_back_claim_leaves_no_trace(names: Claims, one: psycopg.Connection, two: psycopg.Connection) -> None:
    claimed(names, one, "mydb", "A")
    one.rollback()
    claimed(names, two, "mydb", "B")
    assert [past.owner for past in names.history(two, "mydb")] == ["B"]


def test_every_decision_is_logged(names: Claims, one: psycopg.Connection, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "interlock"):
        names.claim(one, "mydb", "A")
        names.claim(one, "mydb", "B")
        names.release(one, "mydb", "A", gone=True)
    logged = [(vars(record)["event"], vars(record)["owner"], vars(record)["asked_by"]) for record in caplog.records]
    assert logged == [("claim.claimed", "A", "A"), ("claim.taken", "A", "B"), ("claim.released", "A", "A")]


@pytest.mark.parametrize("never", [None, float("inf")])
def test_a_wait_without_limit_is_refused(names: Claims, one: psycopg.Connection, never: float | None) -> None:
    with pytest.raises(errors.ConfigurationError, match="never waits without limit"):
        names.claim(one, "mydb", "A", timeout=never)  # type: ignore[arg-type]


def test_an_invalid_name_is_refused_without_a_statement(
    names: Claims, one: psycopg.Connection, interlock_url: str
) -> None:
    for name in ("bad name!", "a.b", "-a", "a" * 64):
        with pytest.raises(errors.InvalidName):
            names.claim(one, name, "A")
    for owner in ("", "a\nb", "x" * 256):
        with pytest.raises(errors.InvalidName):
            names.claim(one, "mydb", owner)
    with pytest.raises(errors.ConfigurationError, match="another owner"):
        names.transfer(one, "mydb", "A", "A")
    with pytest.raises(errors.InvalidName):
        Interlock(interlock_url).claims("", names=dns_label)
    claimed(names, one, "mydb", "A")  # the transaction is still good


@pytest.mark.parametrize(
    "call",
    [
        "claim_v1('dns', '{}', 'A')",
        "claim_v1('dns', NULL, 'A')",
        "claim_v1('dns', ARRAY['a', NULL], 'A')",
        "claim_v1('dns', '{\"\"}', 'A')",
        "claim_v1('', '{a}', 'A')",
        "claim_v1('dns', '{a}', NULL)",
        "claim_one_v1('dns', '', 'A')",
        "claim_one_v1('dns', NULL, 'A')",
        "claim_one_v1('', 'a', 'A')",
        "claim_one_v1('dns', 'a', NULL)",
        "release_claim_v1('dns', 'a', 'A', 0, 'A')",
        "release_claim_v1('dns', 'a', 'A', 0, '')",
    ],
)
def test_the_functions_refuse_arguments_that_no_client_sends(interlock_url: str, call: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        execute(interlock_url, f"SELECT interlock.{call}")


def test_a_name_that_is_released_during_the_claim_is_claimed(names: Claims, interlock_url: str) -> None:
    with psycopg.connect(interlock_url) as first:
        claimed(names, first, "mydb", "A")
    telling = "RETURN QUERY\n        WITH told AS"
    rewrite(interlock_url, "claim_v1", telling, f"PERFORM pg_advisory_xact_lock_shared(17); {telling}")
    answers = []

    def claim() -> None:
        with psycopg.connect(interlock_url) as second:
            answers.append(names.claim(second, "mydb", "B"))

    thread = threading.Thread(target=claim)
    with psycopg.connect(interlock_url) as keeper:
        keeper.execute("SELECT pg_advisory_xact_lock(17)")
        thread.start()
        eventually(lambda: execute(interlock_url, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
        with psycopg.connect(interlock_url) as first:
            assert isinstance(names.release(first, "mydb", "A", gone=True), Released)
    thread.join()
    [answer] = answers
    assert isinstance(answer, Claimed)
    assert answer.owner == "B"


def test_no_statement_is_so_expensive_that_the_server_would_compile_it(names: Claims, one: psycopg.Connection) -> None:
    with plans(one) as found:
        names.claim(one, "mydb", "A")
        names.claim(one, "mydb", "A")
        names.claim(one, "mydb", "B")
        names.claim_all(one, ["a", "b"], "A")
        names.release(one, "mydb", "A", gone=True)
        names.claim(one, "mydb", "A")
        names.owned(one)
    assert any("claim_one_v1" in plan for plan in found)
    assert found.too_long(one) == []
