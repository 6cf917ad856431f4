"""A rollback to a savepoint releases the locks taken since: a guard before it stays, one after it is refused."""

import psycopg
import pytest

from support import savepoint_scenarios as scenarios
from support.guard_scenarios import begun, guard, prepare, verdict, write
from support.leases import Grant, steal
from support.sql_leases import acquire


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return prepare(interlock_url)


def test_after_a_savepoint_it_is_refused_even_if_others_guard(interlock_url: str) -> None:
    scenarios.guards_after_a_savepoint_are_refused(interlock_url)


def test_before_a_savepoint_it_survives_the_rollback(interlock_url: str) -> None:
    scenarios.guards_outlast_rollbacks(interlock_url)


def test_a_guard_before_a_savepoint_may_be_repeated_after_it(interlock_url: str) -> None:
    scenarios.guards_may_be_repeated(interlock_url)


def test_a_released_savepoint_does_not_count(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        connection.execute("SAVEPOINT here")
        write(connection)
        connection.execute("RELEASE here")
        guard(connection, grant)
        assert steal(grant) == "locked"


def test_a_nested_savepoint_counts(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        connection.execute("SAVEPOINT first")
        connection.execute("SAVEPOINT second")
        connection.execute("RELEASE second")
        assert verdict(connection, grant) == "IL003"


def test_a_block_that_catches_exceptions_counts(interlock_url: str, grant: Grant) -> None:
    call = f"PERFORM interlock.guard_v1('{grant.name}', {grant.token}, '{grant.grant_id}')"
    with begun(interlock_url) as connection, pytest.raises(psycopg.Error) as error:
        connection.execute(f"DO $$ BEGIN {call}; EXCEPTION WHEN division_by_zero THEN END $$")
    assert error.value.sqlstate == "IL003"


def test_the_guard_of_another_lease_does_not_count(interlock_url: str, grant: Grant) -> None:
    other = Grant(interlock_url, acquire(interlock_url, "other", ttl=30))
    with begun(interlock_url) as connection:
        guard(connection, other)
        connection.execute("SAVEPOINT here")
        assert verdict(connection, grant) == "IL003"
