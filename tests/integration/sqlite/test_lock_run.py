"""`interlock lock run` with the lease in a SQLite file."""

import sqlite3
from pathlib import Path

import pytest

from support.programs import INTERLOCK, interlock, started


def test_a_command_runs_under_its_lease(url: str, mine: sqlite3.Connection) -> None:
    ended = interlock("lock", "run", "nightly", "--", "sh", "-c", "echo $INTERLOCK_LEASE_TOKEN", url=url)
    assert ended.returncode == 0, ended.stderr
    assert mine.execute("SELECT token FROM interlock_lease").fetchone() == (int(ended.stdout),)


def test_a_second_command_reports_that_the_lease_is_held(url: str) -> None:
    with started("lock", "run", "nightly", "--", "sh", "-c", "echo runs; sleep 50", url=url) as first:
        assert first.process.stdout is not None
        assert first.process.stdout.readline() == "runs\n"
        second = interlock("lock", "run", "nightly", "--no-wait", "--", "true", url=url)
        assert second.returncode == 75
        assert "'nightly' is not available now: `interlock lease list nightly` shows its holder." in second.stderr


def test_a_command_within_itself_is_refused(url: str) -> None:
    within = f"{INTERLOCK} lock run nightly -- echo never"
    ended = interlock("lock", "run", "nightly", "--", "sh", "-c", within, url=url)
    assert ended.returncode == 70
    assert "runs under the lease 'nightly' already" in ended.stderr
    assert "drop the inner `interlock` command, or give it another lease's name." in ended.stderr
    assert "never" not in ended.stdout


@pytest.mark.parametrize("command", ["claim list", "gate status", "schema status", "orchestration list"])
def test_commands_for_postgresql_alone_say_so(url: str, file: Path, command: str) -> None:
    ended = interlock(*command.split(), url=url)
    assert ended.returncode == 78
    assert ended.stderr.startswith("interlock: A sqlite:// database keeps only leases: use a postgresql")
    assert not file.exists()
