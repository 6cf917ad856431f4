"""The guard in SQL: its guarantees at each isolation level, and the roles that may call it."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from urllib.parse import urlsplit

import psycopg
import pytest

from interlock.schema import grant_sql
from support import guard_scenarios as scenarios
from support.guard_scenarios import LEVELS, READ_LEVELS, SNAPSHOT_LEVELS, after, begun, guard, notes, prepare, verdict
from support.leases import Grant, break_open, expire, granted, steal
from support.postgres import execute
from support.protocol import RENEW_MANY
from support.waiting import eventually

at_each_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return prepare(interlock_url)


def test_a_stale_guard_never_commits_with_any_snapshot_and_any_state_of_the_lease(
    interlock_url: str,
) -> None:
    scenarios.stale_guards_never_commit(interlock_url)


def test_neither_does_one_whose_token_was_granted_again(interlock_url: str) -> None:
    scenarios.the_same_token_is_not_enough(interlock_url)


def test_another_holder_waits_for_a_guarded_transaction(interlock_url: str) -> None:
    scenarios.thieves_wait_for_the_commit(interlock_url)


def test_the_holders_renewals_and_its_release_wait_for_no_guard(interlock_url: str) -> None:
    scenarios.renewals_and_the_release_pass_open_guards(interlock_url)


def test_expiry_counts_if_the_current_row_is_visible(interlock_url: str) -> None:
    scenarios.expired_leases_are_not_guarded(interlock_url)


@pytest.mark.parametrize("level", SNAPSHOT_LEVELS)
def test_with_an_older_snapshot_token_and_grant_decide_and_no_other_gets_it_before_the_commit(
    interlock_url: str, level: str
) -> None:
    grant = prepare(interlock_url)
    with begun(interlock_url, level) as connection:
        expire(grant)
        assert verdict(connection, grant) == "passed"
        assert steal(grant) == "locked"


@at_each_level
def test_a_renewal_before_the_guard_does_no_harm(interlock_url: str, level: str) -> None:
    assert after(interlock_url, lambda grant: grant.renew(), level) == "wrote"


@pytest.mark.parametrize("level", READ_LEVELS)
@pytest.mark.parametrize("end", [Grant.release, break_open], ids=["released", "broken"])
def test_a_released_or_broken_grant_is_not_guarded_even_if_the_lease_is_free(
    interlock_url: str, level: str, end: Callable[[Grant], object]
) -> None:
    assert after(interlock_url, end, level) == "IL001"


def test_a_batch_of_renewals_does_not_wait_for_the_guard_of_one(interlock_url: str, grant: Grant) -> None:
    others = [granted(interlock_url, name) for name in ("a", "b", "z")]
    with begun(interlock_url) as connection:
        guard(connection, grant)
        names, tokens, ids = zip(*(held.triple for held in [*others, grant]), strict=True)
        answer = execute(interlock_url, RENEW_MANY, list(tokens), list(ids), list(names), [30.0] * len(names))
    assert answer == [(None, None)]


@pytest.mark.exhaustive(beyond=2)
@at_each_level
@pytest.mark.parametrize("taken", [True, False], ids=["taken", "left"])
def test_a_guard_waits_for_a_concurrent_grant_and_then_decides(
    interlock_url: str, grant: Grant, level: str, taken: bool
) -> None:
    with psycopg.connect(interlock_url) as thief, begun(interlock_url, level) as connection:
        thief.execute("SELECT FROM interlock.lease WHERE name = %s FOR UPDATE", [grant.name])
        if taken:
            thief.execute("UPDATE interlock.lease SET token = token + 1, grant_id = gen_random_uuid()")
        with ThreadPoolExecutor() as threads:
            waiting: Future[str] = threads.submit(verdict, connection, grant)
            eventually(lambda: is_waiting(interlock_url, connection))
            thief.commit()
            expected = "passed" if not taken else "IL001" if level in READ_LEVELS else "40001"
            assert waiting.result() == expected


def is_waiting(url: str, connection: psycopg.Connection) -> bool:
    waits = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
    return bool(execute(url, waits, connection.info.backend_pid)[0][0])


def test_a_name_that_was_never_leased_cannot_be_guarded(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection, pytest.raises(psycopg.Error) as error:
        connection.execute("SELECT interlock.guard_v1('unknown', %s, %s)", [grant.token, grant.grant_id])
    assert error.value.sqlstate == "IL001"


def test_a_role_that_may_use_leases_may_guard_and_may_not_read_the_table(interlock_url: str, grant: Grant) -> None:
    role = f"guarding_{urlsplit(interlock_url).path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role}; {grant_sql(role, 'interlock', ['leases'])}")
    with begun(interlock_url) as connection:
        connection.execute(f"SET ROLE {role}")
        assert verdict(connection, grant) == "passed"
        assert steal(grant) == "locked"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT FROM interlock.lease FOR KEY SHARE")


def test_another_search_path_does_not_mislead_the_guard(interlock_url: str, grant: Grant) -> None:
    execute(interlock_url, "CREATE SCHEMA evil")
    execute(interlock_url, "CREATE FUNCTION evil.pg_current_xact_id() RETURNS xid8 LANGUAGE sql RETURN xid8 '1'")
    with begun(interlock_url) as connection:
        connection.execute("SET LOCAL search_path = evil, pg_catalog")
        connection.execute("SAVEPOINT here")
        assert verdict(connection, grant) == "IL003"


def test_in_autocommit_mode_it_protects_nothing(interlock_url: str, grant: Grant) -> None:
    """So the Python guard refuses it; in SQL it cannot be detected."""
    execute(interlock_url, "SELECT interlock.guard_v1(%s, %s, %s)", *grant.triple)
    assert steal(grant) == "granted"
    assert notes(interlock_url) == []
