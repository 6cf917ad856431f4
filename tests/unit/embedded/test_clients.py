from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.embedded import binaries, clients
from interlock.embedded.clients import clients_for
from interlock.errors import BinariesMissing

Installer = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Puts programs onto a machine that has none, which say that they are PostgreSQL's."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", (str(tmp_path / "system" / "*" / "bin"),))
    monkeypatch.setattr("shutil.which", lambda name: None)

    def make(place: str, version: str, *programs: str) -> Path:
        bin_dir = tmp_path / place
        bin_dir.mkdir(parents=True)
        for program in programs or ("pg_dump", "pg_restore"):
            path = bin_dir / program
            path.write_text(f'#!/bin/sh\necho "{program} (PostgreSQL) {version}"\n')
            path.chmod(0o755)
        return bin_dir

    return make


def test_the_lowest_version_that_is_not_below_the_servers_is_taken(install: Installer) -> None:
    found = {version: install(f"system/{version}/bin", f"{version}.4") for version in (15, 16, 18)}
    assert clients_for(16) == clients.Clients(found[16], (16, 4))
    assert clients_for(17).bin_dir == found[18]
    assert clients_for(14).bin_dir == found[15]


def test_without_new_enough_clients_the_error_says_what_to_install(install: Installer) -> None:
    install("system/15/bin", "15.4")
    with pytest.raises(BinariesMissing, match=r"PostgreSQL 17 .* install postgresql-client-17"):
        clients_for(17)


def test_given_ones_go_before_others_of_their_version(install: Installer) -> None:
    install("system/16/bin", "16.9")
    given = install("given", "16.1")
    assert clients_for(16, given).bin_dir == given
    assert clients_for(15, given).bin_dir == given


def test_incomplete_and_broken_installations_are_skipped(install: Installer) -> None:
    install("system/16/bin", "16.9", "pg_dump")
    broken = install("system/17/bin", "17.1")
    (broken / "pg_restore").write_text("#!/bin/sh\nexit 127\n")
    whole = install("system/18/bin", "18.0")
    assert clients_for(16).bin_dir == whole
