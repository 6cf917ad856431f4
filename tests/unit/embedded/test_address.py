"""Looking for a cluster is part of the start of every command that was told of no database."""

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import make_url

from interlock import AsyncInterlock, Gate, Interlock
from interlock.embedded import default_url, leads_to, with_socket_parameter
from interlock.errors import ConfigurationError

LOOK = """
import sys
from pathlib import Path
from interlock.embedded import running_url

assert running_url(Path(sys.argv[1])) is None
print(*(name for name in sys.modules if name.startswith("interlock.embedded.")))
"""


def test_finding_a_cluster_does_not_import_its_creation(tmp_path: object) -> None:
    look = [sys.executable, "-c", LOOK, str(tmp_path)]
    loaded = subprocess.run(look, capture_output=True, text=True, timeout=50, check=True).stdout.split()
    modules = {"accounts", "address", "files", "paths", "postmaster", "processes"}
    assert {name.rpartition(".")[2] for name in loaded} == modules


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("INTERLOCK_DATABASE_URL", raising=False)
    monkeypatch.setenv("INTERLOCK_DATA_DIR", str(tmp_path))
    return tmp_path


def test_the_environment_names_the_default_database(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_DATABASE_URL", "postgresql://db/shop")
    assert default_url() == "postgresql://db/shop"


async def test_a_program_without_a_database_gets_the_remedies_in_one_error(nowhere: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match=r"set INTERLOCK_DATABASE_URL .*`interlock env`.* pass url=") as refused,
        Interlock().lease("feeds"),
    ):
        pass
    assert f"no `interlock up` runs on {nowhere}" in str(refused.value)
    assert not any("bridge" in str(entry.path) for entry in refused.traceback), "it was raised in the caller's thread"
    assert refused.value.__suppress_context__
    with pytest.raises(ConfigurationError, match="No database was named"):
        await AsyncInterlock().open()
    with pytest.raises(ConfigurationError, match="No database was named"):
        Gate("shop", check=lambda: True)


def test_a_url_of_the_cluster_is_recognised_by_its_socket(tmp_path: Path) -> None:
    quoted = str(tmp_path.resolve() / "run").replace("/", "%2F")
    assert leads_to(f"postgresql://postgres:secret@{quoted}:5432/postgres", tmp_path)
    assert not leads_to(f"postgresql://postgres:secret@{quoted}:5432/postgres", tmp_path / "other")
    assert leads_to(f"postgresql://postgres:secret@/postgres?host={tmp_path.resolve()}/run&port=5432", tmp_path)
    for url in ("postgresql://db/shop", "postgresql://[::1/shop", "sqlite:///leases.db"):
        assert not leads_to(url, tmp_path)


def test_sqlalchemy_finds_the_socket_in_the_parameters_of_a_url() -> None:
    url = with_socket_parameter("postgresql://postgres:secret@%2Fvar%2Fa%20b%2Frun:5433/shop")
    assert url == "postgresql://postgres:secret@/shop?host=/var/a%20b/run&port=5433"
    parsed = make_url(url)
    assert (parsed.host, dict(parsed.query)) == (None, {"host": "/var/a b/run", "port": "5433"})


@pytest.mark.parametrize(
    "url", ["postgresql://user@db:5432/shop", "postgresql://user@/shop?host=/run", "sqlite:///a.db"]
)
def test_other_urls_stay_as_they_are(url: str) -> None:
    assert with_socket_parameter(url) == url
