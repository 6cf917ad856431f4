"""Guards that stand in a session, as SQL: every transaction that writes a protected table is held to them at COMMIT."""

import pytest

from interlock.schema import whole_schema
from support import standing_scenarios as scenarios
from support.guard_scenarios import begun, notes, write
from support.leases import Grant, granted
from support.postgres import execute
from support.protection_scenarios import committed, protected
from support.standing_scenarios import begin, stand, stood


def test_a_stale_writer_never_commits_at_any_level_whatever_became_of_the_lease(interlock_url: str) -> None:
    scenarios.stale_writers_never_commit(interlock_url)


def test_a_writer_whose_lease_has_expired_does_not_commit_even_if_nobody_took_it(interlock_url: str) -> None:
    scenarios.late_writers_never_commit(interlock_url)


def test_while_the_grant_is_current_every_transaction_commits_until_the_guard_is_taken_away(interlock_url: str) -> None:
    scenarios.every_transaction_is_served(interlock_url)


def test_rows_that_were_written_after_a_savepoint_commit_as_others_do(interlock_url: str) -> None:
    scenarios.rows_of_savepoints_are_served(interlock_url)


def test_guards_of_two_leases_stand_and_go_by_themselves(interlock_url: str) -> None:
    scenarios.a_session_has_its_own_guards_only(interlock_url)


def test_where_another_process_answers_than_the_one_announced_nothing_is_set(interlock_url: str) -> None:
    scenarios.what_would_serve_others_is_refused(interlock_url)


def test_a_guard_that_would_protect_nothing_or_is_stale_is_not_set(interlock_url: str) -> None:
    scenarios.what_would_serve_nobody_is_refused(interlock_url)


def test_the_guard_of_an_older_grant_gives_way_to_the_newer_ones(interlock_url: str) -> None:
    scenarios.an_older_guard_gives_way(interlock_url)


def test_checked_before_commit_it_keeps_thieves_out_from_then_on(interlock_url: str) -> None:
    scenarios.checked_early_it_keeps_thieves_out(interlock_url)


def test_checked_after_a_savepoint_it_is_checked_again_after_a_rollback_to_it(interlock_url: str) -> None:
    scenarios.checked_early_after_a_savepoint_it_is_checked_again(interlock_url)


def test_and_otherwise_it_keeps_thieves_out_from_then_on(interlock_url: str) -> None:
    scenarios.checked_early_after_a_savepoint_it_holds_to_the_end(interlock_url)


def test_what_it_has_locked_while_the_lease_was_held_is_good_to_the_end(interlock_url: str) -> None:
    scenarios.what_was_locked_is_good_to_the_end(interlock_url)


def test_a_grant_of_the_same_token_is_another(interlock_url: str) -> None:
    scenarios.strangers_with_the_same_token_never_commit(interlock_url)


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


def test_another_session_has_nothing_of_it(interlock_url: str, grant: Grant) -> None:
    with stood(interlock_url, grant), begun(interlock_url) as another:
        write(another)
        assert committed(another) == "IL002"


@pytest.mark.parametrize("reset", ["RESET ALL", "DISCARD ALL"])
def test_what_resets_the_session_takes_it_away(interlock_url: str, grant: Grant, reset: str) -> None:
    with stood(interlock_url, grant) as connection:
        connection.autocommit = True
        connection.execute(reset)
        connection.autocommit = False
        write(connection)
        assert committed(connection) == "IL002"
        assert stand(connection, grant) == "standing"


def test_a_guard_in_the_transaction_stands_beside_it(interlock_url: str, grant: Grant) -> None:
    with stood(interlock_url, grant) as connection:
        begin(connection)
        connection.execute("SELECT interlock.guard_v1(%s, %s, %s)", grant.triple)
        write(connection)
        assert grant.release() == "released"
        assert committed(connection) == "committed"
        write(connection)
        assert committed(connection) == "IL001"


@pytest.mark.parametrize("name", ["o'clock", "back\\slash", "grün", 'a "quoted" {name}', "a, b"])
def test_names_of_every_kind_are_found_among_the_triggers(interlock_url: str, name: str) -> None:
    execute(interlock_url, "CREATE TABLE notes (note text)")
    execute(interlock_url, "SELECT interlock.protect_v1('notes', %s)", name)
    with stood(interlock_url, granted(interlock_url, name)) as connection:
        write(connection)
        assert committed(connection) == "committed"
    assert notes(interlock_url) == ["a"]


def test_partitions_count_as_their_table_does(interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE notes (note text) PARTITION BY LIST (note)")
    execute(interlock_url, "CREATE TABLE part PARTITION OF notes DEFAULT")
    execute(interlock_url, "SELECT interlock.protect_v1('notes', 'feeds')")
    with stood(interlock_url, granted(interlock_url)) as connection:
        write(connection)
        assert committed(connection) == "committed"


def test_the_triggers_of_another_interlock_in_the_same_database_do_not_count(interlock_url: str) -> None:
    execute(interlock_url, whole_schema("locks"))
    execute(interlock_url, "CREATE TABLE notes (note text); SELECT locks.protect_v1('notes', 'feeds')")
    with begun(interlock_url) as connection:
        assert stand(connection, granted(interlock_url)) == "unprotected"
