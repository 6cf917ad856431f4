"""G1 with a live migrator: its command ends abnormally, or its lock is lost without its notice."""

import os
import shlex
import signal
from pathlib import Path

import psycopg
import pytest

from support import migrations
from support.gates import waiters
from support.migrations import keeps_writing, psql, running_long, tells_what_it_meets, writes
from support.postgres import execute, running_cluster
from support.programs import interlock, started
from support.waiting import eventually


def statements_met_by_the_next(url: str) -> int:
    met = interlock("gate", "run", "--", *tells_what_it_meets(url), url=url)
    assert met.returncode == 0, met.stderr
    return int(met.stdout.split()[1])


def outcomes(url: str) -> list[str]:
    return [outcome for (outcome,) in execute(url, "SELECT outcome FROM interlock.gate_run ORDER BY fence")]


def clients_of(url: str) -> list[int]:
    """Returns the psql processes of the command: those with the database's URL on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[0].endswith(b"psql"):
                found.append((int(entry.name), (entry / "cmdline").read_bytes()))
        except OSError:
            continue
    return [pid for pid, line in found if url.encode() in line]


def test_a_command_that_was_asked_to_stop_leaves_no_statement_behind(interlock_url: str) -> None:
    long = migrations.long_by_psql(interlock_url)
    with started("gate", "run", "--", *long, url=interlock_url) as first:
        eventually(lambda: running_long(interlock_url))
        first.send(signal.SIGTERM)
        status, _, error = first.end()
    assert status == 143, error
    assert statements_met_by_the_next(interlock_url) == 0
    assert outcomes(interlock_url) == ["failed", "done"]


def test_a_command_that_was_killed_leaves_no_statement_behind(interlock_url: str) -> None:
    long = migrations.long_by_psql(interlock_url)
    with started("gate", "run", "--", *long, url=interlock_url) as first:
        eventually(lambda: running_long(interlock_url))
        (client,) = clients_of(interlock_url)
        os.kill(client, signal.SIGKILL)
        assert first.end()[0] == 137
    assert statements_met_by_the_next(interlock_url) == 0


def test_background_processes_of_a_command_have_ended_before_the_gate_opens(interlock_url: str) -> None:
    long = shlex.join(migrations.long_by_psql(interlock_url))
    wait = shlex.join(psql(interlock_url, "SELECT pg_sleep(0.5)"))
    with started("gate", "run", "--", "bash", "-c", f"{long} & {wait}; exit 0", url=interlock_url) as first:
        status, _, error = first.end()
    assert status == 0
    assert "command.left_behind" in error
    assert statements_met_by_the_next(interlock_url) == 0
    assert outcomes(interlock_url) == ["done", "done"]


def test_with_a_role_of_its_own_no_session_of_a_migration_is_left_even_after_a_success(interlock_url: str) -> None:
    """The client of the statement is killed inside a script that ignores it."""
    role = interlock_url.split("//")[1].split(":")[0]
    script = f"{shlex.join(migrations.long_by_psql(interlock_url))}; true"
    options = ("--migration-role", role)
    with started("gate", "run", *options, "--", "bash", "-c", script, url=interlock_url) as first:
        eventually(lambda: running_long(interlock_url))
        (client,) = clients_of(interlock_url)
        os.kill(client, signal.SIGKILL)
        assert first.end()[0] == 0
    assert running_long(interlock_url) == 0


@pytest.mark.exhaustive
def test_a_migrator_that_cannot_notice_its_loss_is_waited_for(interlock_url: str) -> None:
    """Its lock is lost while it is suspended; its command works on until its supervisor ends it."""
    execute(interlock_url, "CREATE TABLE write (who text, at timestamptz DEFAULT clock_timestamp())")
    options = ("gate", "run", "--gate-ttl", "6")
    with started(*options, "--", *keeps_writing(interlock_url, "first"), url=interlock_url) as first:
        eventually(lambda: writes(interlock_url, "first"))
        second = [*psql(interlock_url, "INSERT INTO write (who) VALUES ('second')")]
        with started(*options, "--", *second, url=interlock_url) as successor:
            eventually(lambda: waiters(interlock_url))
            first.send(signal.SIGSTOP)
            execute(interlock_url, "SELECT pg_terminate_backend(lock_pid) FROM interlock.gate_run")
            status, _, error = successor.end()
            assert status == 0, error
        first.send(signal.SIGCONT)
        assert first.end()[0] == 74
    assert max(writes(interlock_url, "first")) < min(writes(interlock_url, "second"))


@pytest.mark.exhaustive
def test_after_a_crash_of_the_server_a_migrator_that_may_be_alive_is_waited_for() -> None:
    """The crash ends every session, so that none can show that its process is alive."""
    with running_cluster() as cluster:
        url = cluster.url(tcp=True)
        execute(url, "CREATE TABLE write (who text, at timestamptz DEFAULT clock_timestamp())")
        options = ("gate", "run", "--gate-ttl", "6")
        with started(*options, "--", *keeps_writing(url, "first"), url=url) as first:
            eventually(lambda: writes(url, "first"))
            first.send(signal.SIGSTOP)
            crash(url)
            second = interlock(*options, "--", *psql(url, "INSERT INTO write (who) VALUES ('second')"), url=url)
            assert second.returncode == 0, second.stderr
            first.send(signal.SIGCONT)
            assert first.end()[0] == 74
        assert max(writes(url, "first")) < min(writes(url, "second"))


def crash(url: str) -> None:
    """As if the system had killed one of the server's processes: the server ends all others and recovers."""
    with psycopg.connect(url) as victim:
        os.kill(victim.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            victim.execute("SELECT 1")
    eventually(lambda: answers(url))


def answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
