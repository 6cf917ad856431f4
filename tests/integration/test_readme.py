"""The README's examples run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.integrations import alembic
from support.postgres import execute
from support.programs import environment

README = Path(__file__).parents[2] / "README.md"
LEASE, ALEMBIC = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def run(code: str, url: str) -> tuple[int, str]:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment(url), input="\n", capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_readmes_lease_is_taken_and_guards_a_transaction(interlock_url: str) -> None:
    assert run(LEASE, interlock_url) == (0, "")
    assert execute(interlock_url, "SELECT name, held FROM interlock.leases_v1()") == [("feeds", False)]
    assert execute(interlock_url, "SELECT count(*) FROM feed") == [(0,)]


def test_the_readmes_line_for_alembic_calls_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    monkeypatch.setattr(alembic, "gated", called.append)
    exec(ALEMBIC, {"run_migrations_online": "migrations"})  # noqa: S102
    assert called == ["migrations"]
