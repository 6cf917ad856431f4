"""`interlock up` on a named database, and at the gate of its own schema."""

import signal
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from interlock.gate.name import GateName
from support.postgres import execute, on_database
from support.up_process import Starter, replicas
from support.waiting import eventually


@pytest.fixture
def start() -> Iterator[Starter]:
    with replicas() as start:
        yield start


@pytest.fixture
def migrator(database_url: str) -> Iterator[psycopg.Connection]:
    """Another session that holds the gate."""
    lock = GateName(urlsplit(database_url).path.lstrip("/"), "interlock", "interlock").lock
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s::int, %s::int)", lock)
        yield connection


def test_it_is_live_while_another_migrates_and_then_becomes_ready(
    start: Starter, database_url: str, migrator: "psycopg.Connection"
) -> None:
    up = start(url=database_url)
    eventually(lambda: up.phase() == "waiting")
    assert up.get("/health/startup").status_code == 503
    assert up.get("/health/ready").status_code == 503
    assert up.get("/health/live").status_code == 200
    assert "Waiting at the gate" in up.get("/").text
    assert up.stdout == ""
    migrator.close()
    up.wait_ready()
    assert up.phase() == "ready"


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_can_be_stopped_while_it_waits_at_the_gate(
    start: Starter, database_url: str, migrator: "psycopg.Connection", signum: int
) -> None:
    up = start(url=database_url)
    eventually(lambda: up.phase() == "waiting")
    assert up.stop(signum) == 0
    assert "Traceback" not in up.said


@pytest.mark.exhaustive
def test_one_of_several_replicas_migrates_and_all_become_ready(start: Starter, database_url: str) -> None:
    several = [start(url=database_url) for _ in range(3)]
    for up in several:
        up.wait_ready()
    assert (
        sum(up.stderr.count("schema.migrated") for up in several)
        == execute(database_url, "SELECT count(*) FROM interlock.migration")[0][0]
    )


def test_a_named_database_is_left_running_and_its_password_is_not_shown(start: Starter, interlock_url: str) -> None:
    up = start(url=interlock_url)
    up.wait_ready()
    shown = up.said + up.get("/").text
    assert up.stop() == 0
    assert execute(interlock_url, "SELECT 1") == [(1,)]
    password = urlsplit(interlock_url).password
    assert password
    assert password not in shown + up.said


@pytest.mark.exhaustive
def test_it_stops_on_request_even_if_its_database_is_gone(start: Starter, interlock_url: str) -> None:
    up = start(url=interlock_url)
    up.wait_ready()
    name = urlsplit(interlock_url).path.lstrip("/")
    others = on_database(interlock_url, "postgres")
    execute(others, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    execute(others, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name)
    eventually(lambda: not up.is_ready())
    assert up.stop() == 0
    assert "Traceback" not in up.said


def test_earlier_errors_do_not_make_a_requested_stop_fail(start: Starter, interlock_url: str) -> None:
    up = start(url=interlock_url)
    up.wait_ready()
    execute(interlock_url, "ALTER FUNCTION interlock.held_v1(text) RENAME TO gone_v1")
    eventually(lambda: up.logs("periodic.begins_again"))
    assert up.stop() == 0
    assert "Traceback" not in up.said
