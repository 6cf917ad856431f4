"""Tables under `protect_v1`: nothing gets in without the lease's guard, whoever writes and from wherever."""

from urllib.parse import urlsplit

import psycopg
import pytest

from interlock.schema import grant_sql
from support import protection_scenarios as scenarios
from support.guard_scenarios import LEVELS, begun, guard, notes, verdict, write
from support.leases import Grant, expire, granted, steal
from support.postgres import execute
from support.protection_scenarios import claim, committed, protected

at_each_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


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


@at_each_level
def test_a_guard_at_the_start_and_one_at_the_end_are_as_good(interlock_url: str, grant: Grant, level: str) -> None:
    with begun(interlock_url, level) as connection:
        guard(connection, grant)
        write(connection, "a")
        assert committed(connection) == "committed"
    with begun(interlock_url, level) as connection:
        write(connection, "b")
        assert grant.renew() == "renewed"
        guard(connection, grant)
        assert committed(connection) == "committed"
    assert notes(interlock_url) == ["a", "b"]


def test_the_guard_of_another_lease_is_not_the_right_one(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        guard(connection, granted(interlock_url, "other"))
        write(connection)
        assert committed(connection) == "IL002"


def test_two_guards_in_one_transaction_serve_two_tables(interlock_url: str, grant: Grant) -> None:
    execute(interlock_url, "CREATE TABLE logs (); SELECT interlock.protect_v1('logs', 'other')")
    with begun(interlock_url) as connection:
        guard(connection, grant)
        guard(connection, granted(interlock_url, "other"))
        write(connection)
        connection.execute("INSERT INTO logs DEFAULT VALUES")
        assert committed(connection) == "committed"


def test_a_guard_that_was_refused_after_a_savepoint_is_none(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        write(connection)
        connection.execute("SAVEPOINT here")
        assert verdict(connection, grant) == "IL003"
        connection.execute("ROLLBACK TO here")
        assert committed(connection) == "IL002"


def test_a_guard_does_not_serve_the_next_transaction(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        guard(connection, grant)
        assert committed(connection) == "committed"
        write(connection)
        assert committed(connection) == "IL002"


def test_a_stale_claim_is_found_out(interlock_url: str) -> None:
    scenarios.claims_are_checked(interlock_url)


def test_another_ones_lock_does_not_make_a_claim_true(interlock_url: str) -> None:
    scenarios.claims_are_checked_beside_others(interlock_url)


def test_a_true_claim_is_as_good_as_the_guard_and_locks_as_it_does(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        claim(connection, grant)
        write(connection)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert steal(grant) == "locked"
        assert committed(connection) == "committed"


def test_a_claim_is_checked_again_where_a_rollback_to_a_savepoint_undid_it(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        claim(connection, grant)
        write(connection)
        connection.execute("SAVEPOINT here")
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert steal(grant) == "locked"
        connection.execute("ROLLBACK TO here")
        assert steal(grant) == "granted"
        assert committed(connection) == "IL001"


@pytest.mark.parametrize("claim", ["nonsense", "{}", '{"feeds": [1, null]}', '{"feeds": []}', '{"feeds": null}', "[]"])
def test_a_claim_that_makes_no_sense_opens_nothing(interlock_url: str, grant: Grant, claim: str) -> None:
    with begun(interlock_url) as connection:
        connection.execute("SELECT set_config('interlock_guard.carried', %s, true)", [claim])
        write(connection)
        assert committed(connection) != "committed"
    assert notes(interlock_url) == []


def test_a_guard_is_good_to_the_end_also_if_its_holder_releases_before_the_commit(interlock_url: str) -> None:
    scenarios.guards_are_good_to_the_end(interlock_url)


@at_each_level
def test_or_if_the_lease_expires_before_the_commit(interlock_url: str, grant: Grant, level: str) -> None:
    with begun(interlock_url, level) as connection:
        guard(connection, grant)
        write(connection)
        expire(grant)
        assert committed(connection) == "committed"
    assert (steal(grant), notes(interlock_url)) == ("granted", ["a"])


def test_who_may_write_the_table_and_nothing_of_interlocks_is_told_so_too(interlock_url: str, grant: Grant) -> None:
    role = f"stranger_{urlsplit(interlock_url).path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role}; GRANT SELECT, INSERT ON notes TO {role}")
    with begun(interlock_url) as connection:
        connection.execute(f"SET ROLE {role}")
        write(connection)
        assert committed(connection) == "IL002"


def test_who_owns_a_table_and_may_use_leases_may_protect_it(interlock_url: str, grant: Grant) -> None:
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


def test_partitions_are_protected_with_their_table(interlock_url: str, grant: Grant) -> None:
    execute(interlock_url, "CREATE TABLE parted (n integer) PARTITION BY LIST (n)")
    execute(interlock_url, "CREATE TABLE part PARTITION OF parted DEFAULT")
    execute(interlock_url, "SELECT interlock.protect_v1('parted', 'feeds')")
    for table in ("parted", "part"):
        with begun(interlock_url) as connection:
            connection.execute(f"INSERT INTO {table} VALUES (1)")
            assert committed(connection) == "IL002"


def test_not_covered_are_truncate_and_those_who_may_drop_the_trigger(interlock_url: str, grant: Grant) -> None:
    execute(interlock_url, "TRUNCATE notes")
    execute(interlock_url, "DROP TRIGGER interlock_guard ON notes")
    execute(interlock_url, "INSERT INTO notes VALUES ('free again')")
