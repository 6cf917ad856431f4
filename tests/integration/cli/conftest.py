"""A control plane with scripted answers, found by its data directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interlock.cli import main
from support.scripted_server import Command, ScriptedServer, listed, scripted_server


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    for name in ("SERVER", "API_KEY", "CONFIG", "DATABASE_URL"):
        monkeypatch.delenv(f"INTERLOCK_{name}", raising=False)
    monkeypatch.setenv("INTERLOCK_DATA_DIR", str(tmp_path))
    with scripted_server() as server, listed(tmp_path, server.url):
        yield server


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Command:
    """`interlock instance …` in this process: output, errors and exit status. It does not sleep between requests."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    def run(*args: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(main, ["instance", *args], input=typed)

    return run
