"""G1: two migrators never overlap, with every kind of death of the first and every client that its tool uses."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from support import migrations
from support.gates import waiters
from support.migrations import running_long, tells_what_it_meets
from support.postgres import execute
from support.programs import Program, started
from support.waiting import eventually

Migration = Callable[[str], list[str]]

TOOLS = [migrations.long_by_psql_as_grandchild, migrations.long_by_psycopg, migrations.long_by_asyncpg]


@pytest.fixture(params=TOOLS, ids=lambda tool: tool.__name__)
def tool(request: pytest.FixtureRequest) -> Migration:
    chosen: Migration = request.param
    return chosen


@contextmanager
def migrating_and_waiting(url: str, tool: Migration, *options: str) -> Iterator[tuple[Program, Program]]:
    """A replica in a long statement, and a waiter that will report the statements it meets."""
    with started("gate", "run", *options, "--", *tool(url), url=url) as first:
        eventually(lambda: running_long(url))
        with started("gate", "run", *options, "--", *tells_what_it_meets(url), url=url) as second:
            eventually(lambda: waiters(url))
            yield first, second


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def statements_met(successor: Program) -> tuple[float, int]:
    """Returns the start of the successor's migration, and the number of its predecessor's statements that it met."""
    status, output, error = successor.end()
    assert status == 0, error
    began, count = output.split()
    return float(began), int(count)


@pytest.mark.exhaustive(beyond=1)
def test_a_killed_migrators_statement_is_gone_before_the_next_one_starts(
    interlock_url: str, tool: Migration, record_property: Callable[[str, object], None]
) -> None:
    with migrating_and_waiting(interlock_url, tool) as (first, second):
        killed_at = time.time()
        first.send(signal.SIGKILL)
        began, overlapping = statements_met(second)
    assert overlapping == 0
    record_property("figure", f"{tool.__name__}: the next migrator started {began - killed_at:.2f} s after SIGKILL")


def test_with_a_check_of_the_connection_the_server_ends_the_statement_itself(interlock_url: str) -> None:
    """With the setting that docs/how-to/gate.md advises for the migration's role; no successor comes to the gate."""
    database = interlock_url.rpartition("/")[2]
    execute(interlock_url, f"ALTER DATABASE {database} SET client_connection_check_interval = '500ms'")
    with started("gate", "run", "--", *migrations.long_by_psycopg(interlock_url), url=interlock_url) as first:
        eventually(lambda: running_long(interlock_url))
        first.send(signal.SIGKILL)
        eventually(lambda: not running_long(interlock_url))


def test_a_migrator_killed_with_its_whole_process_group_leaves_nothing(interlock_url: str) -> None:
    with started("gate", "run", "--", *migrations.long_by_asyncpg(interlock_url), url=interlock_url) as first:
        eventually(lambda: running_long(interlock_url))
        os.killpg(first.pid, signal.SIGKILL)
        with started("gate", "run", "--", *tells_what_it_meets(interlock_url), url=interlock_url) as second:
            _, overlapping = statements_met(second)
    assert overlapping == 0


@pytest.mark.exhaustive
def test_a_suspended_migrator_loses_the_gate_and_its_statement(interlock_url: str, tool: Migration) -> None:
    with migrating_and_waiting(interlock_url, tool, "--gate-ttl", "6") as (first, second):
        first.send(signal.SIGSTOP)
        _, overlapping = statements_met(second)
        first.send(signal.SIGCONT)
        status, _, error = first.end()
    assert overlapping == 0
    assert status == 74
    assert "was lost while migrating" in error
    assert "Traceback" not in error


@pytest.mark.exhaustive(beyond=1)
def test_a_terminated_lock_backend_stops_the_command(interlock_url: str, tool: Migration) -> None:
    with migrating_and_waiting(interlock_url, tool) as (first, second):
        execute(interlock_url, "SELECT pg_terminate_backend(lock_pid) FROM interlock.gate_run WHERE ended_at IS NULL")
        status, _, error = first.end()
        _, overlapping = statements_met(second)
    assert status == 74
    assert "was lost while migrating" in error
    assert "Traceback" not in error
    assert overlapping == 0


def test_the_successor_of_a_killed_migrator_leaves_older_sessions_alone(interlock_url: str) -> None:
    with (
        psycopg.connect(interlock_url, autocommit=True) as older,
        started("gate", "run", "--", *migrations.long_by_psycopg(interlock_url), url=interlock_url) as first,
    ):
        eventually(lambda: running_long(interlock_url))
        first.send(signal.SIGKILL)
        with started("gate", "run", "--", *tells_what_it_meets(interlock_url), url=interlock_url) as second:
            _, overlapping = statements_met(second)
        assert older.execute("SELECT 1").fetchone() == (1,)
    assert overlapping == 0


@pytest.mark.exhaustive
def test_a_command_whose_supervisors_were_both_killed_keeps_its_run_open(interlock_url: str) -> None:
    with started(
        "gate", "run", "--", *migrations.long_by_psql_as_grandchild(interlock_url), url=interlock_url
    ) as first:
        eventually(lambda: running_long(interlock_url))
        (guard,) = children(first.pid)
        (supervisor,) = children(guard)
        for process in (guard, supervisor):
            os.kill(process, signal.SIGSTOP)
        for process in (guard, supervisor):
            os.kill(process, signal.SIGKILL)
        status, _, error = first.end()
    assert status == 70
    assert "processes of the command may still run" in error
    assert execute(interlock_url, "SELECT outcome FROM interlock.gate_run") == [(None,)]
    with started("gate", "run", "--", *tells_what_it_meets(interlock_url), url=interlock_url) as second:
        _, overlapping = statements_met(second)
    assert overlapping == 0
