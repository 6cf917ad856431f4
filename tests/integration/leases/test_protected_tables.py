"""Tables under `protect_v1`: no write commits without the lease's guard, from any client."""

from urllib.parse import urlsplit

import psycopg
import pytest

from interlock.schema import grant_sql, whole_schema
from support import protection_scenarios as scenarios
from support.guard_scenarios import LEVELS, begun, guard, notes, write
from support.leases import Grant, expire, granted, steal
from support.postgres import execute
from support.protection_scenarios import committed, protected

at_each_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


@pytest.mark.exhaustive(beyond=3)
@at_each_level
@pytest.mark.parametrize(
    "change", ["INSERT INTO notes VALUES ('b')", "UPDATE notes SET note = 'b'", "DELETE FROM notes"]
)
def test_a_change_without_the_guard_is_refused_at_commit(
    interlock_url: str, grant: Grant, level: str, change: str
) -> None:
    with begun(interlock_url) as connection:
        guard(connection, grant)
        write(connection)
        connection.commit()
    with begun(interlock_url, level) as connection:
        connection.execute(change)
        assert committed(connection) == "IL002"
    assert notes(interlock_url) == ["a"]


def test_guarded_transactions_commit_at_each_level_beside_others(interlock_url: str) -> None:
    scenarios.guarded_transactions_commit(interlock_url)


def test_rows_that_were_written_after_a_savepoint_commit_too(interlock_url: str) -> None:
    scenarios.rows_of_savepoints_commit(interlock_url)


def test_the_guard_of_another_lease_is_refused(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        guard(connection, granted(interlock_url, "other"))
        write(connection)
        assert committed(connection) == "IL002"


def test_each_table_needs_the_guard_of_its_own_lease(interlock_url: str) -> None:
    scenarios.each_table_has_its_own_guard(interlock_url)


def test_a_guard_that_was_refused_after_a_savepoint_does_not_count(interlock_url: str) -> None:
    scenarios.guards_after_a_savepoint_open_nothing(interlock_url)


def test_a_guard_does_not_serve_the_next_transaction(interlock_url: str) -> None:
    scenarios.a_guard_serves_one_transaction(interlock_url)


def test_a_stale_declaration_is_refused_at_any_level_in_any_state_of_the_lease(interlock_url: str) -> None:
    scenarios.stale_claims_open_nothing(interlock_url)


def test_so_is_one_whose_lease_expired_or_was_released_even_if_it_is_free(interlock_url: str) -> None:
    scenarios.late_claims_open_nothing(interlock_url)


def test_neither_does_one_whose_token_was_granted_again(interlock_url: str) -> None:
    scenarios.claims_with_anothers_token_open_nothing(interlock_url)


def test_anothers_lock_does_not_make_a_declaration_valid(interlock_url: str) -> None:
    scenarios.claims_beside_others_open_nothing(interlock_url)


def test_the_guard_of_a_newer_grant_replaces_the_declaration_of_an_older_one(interlock_url: str) -> None:
    scenarios.a_claim_of_an_older_grant_gives_way(interlock_url)


def test_a_valid_declaration_locks_as_the_guard_does(interlock_url: str) -> None:
    scenarios.checked_early_it_keeps_thieves_out(interlock_url)


def test_a_declaration_is_checked_again_if_a_rollback_to_a_savepoint_undid_its_lock(interlock_url: str) -> None:
    scenarios.checked_early_after_a_savepoint_it_is_checked_again(interlock_url)


def test_otherwise_its_lock_holds_to_the_end(interlock_url: str) -> None:
    scenarios.checked_early_after_a_savepoint_it_holds_to_the_end(interlock_url)


@pytest.mark.exhaustive(beyond=3)
@pytest.mark.parametrize("claim", ["nonsense", "{}", '{"feeds": [1, null]}', '{"feeds": []}', '{"feeds": null}', "[]"])
def test_a_malformed_declaration_is_refused(interlock_url: str, grant: Grant, claim: str) -> None:
    with begun(interlock_url) as connection:
        connection.execute("SELECT set_config('interlock_guard.carried', %s, true)", [claim])
        write(connection)
        assert committed(connection) != "committed"
    assert notes(interlock_url) == []


def test_a_guard_holds_to_the_end_also_if_the_lease_ends_before_the_commit(interlock_url: str) -> None:
    scenarios.guards_are_good_to_the_end(interlock_url)


@at_each_level
def test_also_if_the_lease_expires_at_each_level(interlock_url: str, grant: Grant, level: str) -> None:
    with begun(interlock_url, level) as connection:
        guard(connection, grant)
        write(connection)
        expire(grant)
        assert committed(connection) == "committed"
    assert (steal(grant), notes(interlock_url)) == ("granted", ["a"])


def test_a_role_without_privileges_on_interlock_gets_the_same_error(interlock_url: str, grant: Grant) -> None:
    role = f"stranger_{urlsplit(interlock_url).path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role}; GRANT SELECT, INSERT ON notes TO {role}")
    with begun(interlock_url) as connection:
        connection.execute(f"SET ROLE {role}")
        write(connection)
        assert committed(connection) == "IL002"


def test_the_owner_of_a_table_who_may_use_leases_may_protect_it(interlock_url: str, grant: Grant) -> None:
    role = f"owner_{urlsplit(interlock_url).path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role}; {grant_sql(role, 'interlock', ['leases'])}")
    execute(interlock_url, f"CREATE SCHEMA shop; CREATE TABLE shop.orders (); ALTER TABLE shop.orders OWNER TO {role}")
    execute(interlock_url, f"GRANT USAGE ON SCHEMA shop TO {role}")
    with begun(interlock_url) as connection:
        connection.execute(f"SET ROLE {role}")
        connection.execute("SELECT interlock.protect_v1('shop.orders', 'feeds')")
        connection.execute("INSERT INTO shop.orders DEFAULT VALUES")
        with pytest.raises(psycopg.Error, match=r"shop\.orders may only be written under the lease 'feeds'"):
            connection.commit()
        connection.execute(f"SET ROLE {role}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT interlock.protect_v1('notes', 'feeds')")


def test_a_role_that_may_use_leases_and_write_the_table_needs_no_more(interlock_url: str, grant: Grant) -> None:
    role = f"writer_{urlsplit(interlock_url).path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role}; {grant_sql(role, 'interlock', ['leases'])}")
    execute(interlock_url, f"GRANT INSERT ON notes TO {role}")
    with psycopg.connect(interlock_url) as connection:
        connection.execute(f"SET ROLE {role}")
        guard(connection, grant)
        write(connection)
        assert committed(connection) == "committed"


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize("name", ["o'clock", "back\\slash", "grün", 'a "quoted" {name}', "a, b"])
def test_leases_of_every_name_protect_tables(interlock_url: str, name: str) -> None:
    execute(interlock_url, "CREATE TABLE notes (note text)")
    execute(interlock_url, "SELECT interlock.protect_v1('notes', %s)", name)
    with begun(interlock_url) as connection:
        guard(connection, granted(interlock_url, name))
        write(connection)
        assert committed(connection) == "committed"
    assert notes(interlock_url) == ["a"]


def test_the_guard_of_another_interlock_schema_is_refused(interlock_url: str) -> None:
    execute(interlock_url, whole_schema("locks"))
    execute(interlock_url, "CREATE TABLE notes (note text); SELECT locks.protect_v1('notes', 'feeds')")
    with begun(interlock_url) as connection:
        guard(connection, granted(interlock_url))
        write(connection)
        assert committed(connection) == "IL001"
    assert notes(interlock_url) == []


def test_partitions_are_protected_with_their_table(interlock_url: str, grant: Grant) -> None:
    execute(interlock_url, "CREATE TABLE parted (n integer) PARTITION BY LIST (n)")
    execute(interlock_url, "CREATE TABLE part PARTITION OF parted DEFAULT")
    execute(interlock_url, "SELECT interlock.protect_v1('parted', 'feeds')")
    for table in ("parted", "part"):
        with begun(interlock_url) as connection:
            connection.execute(f"INSERT INTO {table} VALUES (1)")
            assert committed(connection) == "IL002"
            guard(connection, grant)
            connection.execute(f"INSERT INTO {table} VALUES (1)")
            assert committed(connection) == "committed"


def test_truncate_and_roles_that_may_drop_the_trigger_are_not_covered(interlock_url: str, grant: Grant) -> None:
    execute(interlock_url, "TRUNCATE notes")
    execute(interlock_url, "DROP TRIGGER interlock_guard ON notes")
    execute(interlock_url, "INSERT INTO notes VALUES ('free again')")
