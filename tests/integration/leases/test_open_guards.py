"""Transactions that guard a lease and do not end: their time limits, their listing, and the ways to end them."""

from collections.abc import Iterator

import psycopg
import pytest

from interlock.embedded import Cluster
from interlock.schema import whole_schema
from support.guard_scenarios import begun, guard, notes, prepare, write
from support.leases import Grant, break_open, steal
from support.postgres import QUICK, execute, running_cluster
from support.sql_leases import acquire, ask
from support.waiting import eventually

SETTINGS = ("client_connection_check_interval", "idle_in_transaction_session_timeout")


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return prepare(interlock_url)


def settings(connection: psycopg.Connection) -> list[str]:
    return [str(connection.execute(f"SHOW {name}").fetchone()[0]) for name in SETTINGS]  # type: ignore[index]


def guarding(url: str, name: str = "feeds") -> set[int]:
    return {pid for (pid,) in execute(url, "SELECT pid FROM interlock.guards_v1(%s)", name)}


def test_the_server_notices_a_dead_or_idle_client_until_the_transaction_ends(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        before = settings(connection)
        guard(connection, grant)
        assert settings(connection) == ["1s", "1min"]
        connection.commit()
        assert settings(connection) == before == ["0", "0"]


@pytest.mark.parametrize(("ttl", "idle"), [(0.1, "10s"), (5, "10s"), (600, "20min"), (86400, "2d")])
def test_idle_is_twice_the_ttl_and_ten_seconds_at_least(interlock_url: str, ttl: float, idle: str) -> None:
    execute(interlock_url, "CREATE TABLE notes ()")
    with begun(interlock_url) as connection:
        guard(connection, Grant(interlock_url, acquire(interlock_url, "feeds", ttl=ttl)))
        assert settings(connection)[1] == idle


def test_the_users_settings_stay(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        for name, value in zip(SETTINGS, ("7s", "3min"), strict=True):
            connection.execute(f"SET {name} = '{value}'")
        guard(connection, grant)
        assert settings(connection) == ["7s", "3min"]


def test_exactly_the_guarding_sessions_are_listed(interlock_url: str, grant: Grant) -> None:
    """The server records several lockers of a row as a group."""
    with begun(interlock_url) as first, begun(interlock_url) as second, begun(interlock_url) as idle:
        write(idle)
        assert guarding(interlock_url) == set()
        guard(first, grant)
        assert guarding(interlock_url) == {first.info.backend_pid}
        guard(second, grant)
        assert guarding(interlock_url) == {first.info.backend_pid, second.info.backend_pid}
        assert grant.renew() == "renewed"
        assert guarding(interlock_url) == {first.info.backend_pid, second.info.backend_pid}
        first.commit()
        assert guarding(interlock_url) == {second.info.backend_pid}
        assert guarding(interlock_url, "other") == set()
        second.rollback()
        assert guarding(interlock_url) == set()


def test_an_operator_can_end_them_and_is_recorded(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as first, begun(interlock_url) as second:
        for connection in (first, second):
            guard(connection, grant)
            write(connection)
        pids = {first.info.backend_pid, second.info.backend_pid}
        assert set(break_open(grant, terminate=True)) == pids
        eventually(lambda: ask(interlock_url, grant.name, ttl=30).status == "granted")
        for connection in (first, second):
            with pytest.raises(psycopg.OperationalError):
                connection.commit()
    assert notes(interlock_url) == []
    audit = "SELECT name, token, immediate, terminated, reason, done_by FROM interlock.lease_intervention"
    ((*facts, ended, reason, by),) = execute(interlock_url, audit)
    assert (facts, set(ended), reason, by) == ([grant.name, grant.token, True], pids, "a test", "an operator")


def test_they_can_be_ended_also_after_a_release(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        guard(connection, grant)
        assert grant.release() == "released"
        assert ask(interlock_url, grant.name, ttl=30).status == "locked"
        assert break_open(grant, immediate=False, terminate=True) == [connection.info.backend_pid]
        eventually(lambda: ask(interlock_url, grant.name, ttl=30).status == "granted")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()


def test_breaking_a_lease_without_terminate_lets_them_finish(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        guard(connection, grant)
        write(connection)
        assert break_open(grant) == []
        assert ask(interlock_url, grant.name, ttl=30).status == "locked"
        connection.commit()
    assert ask(interlock_url, grant.name, ttl=30).status == "granted"
    assert notes(interlock_url) == ["a"]


def test_a_client_that_dies_during_a_statement_delays_no_one(interlock_url: str, grant: Grant) -> None:
    with begun(interlock_url) as connection:
        guard(connection, grant)
        write(connection)
        connection.pgconn.send_query(b"SELECT pg_sleep(3600)")
        connection.close()
    eventually(lambda: steal(grant) == "granted")
    assert notes(interlock_url) == []


@pytest.fixture(scope="module")
def two_phase_cluster() -> Iterator[Cluster]:
    with running_cluster(QUICK | {"max_prepared_transactions": "5"}) as cluster:
        yield cluster


def test_a_prepared_transaction_keeps_its_guard_when_its_session_has_ended(two_phase_cluster: Cluster) -> None:
    url = two_phase_cluster.url(tcp=True)
    execute(url, whole_schema("interlock"))
    grant = prepare(url)
    with begun(url) as connection:
        guard(connection, grant)
        write(connection)
        connection.execute("PREPARE TRANSACTION 'both'")
    assert steal(grant) == "locked"
    assert guarding(url) == set()
    execute(url, "COMMIT PREPARED 'both'")
    assert (steal(grant), notes(url)) == ("granted", ["a"])
