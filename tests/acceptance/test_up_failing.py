"""A failed start of `interlock up`: one line with the reason, a status, and nothing left behind."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from interlock.server.listener import listen
from support.postgres import execute, on_database
from support.programs import environment, interlock
from support.up_process import data_directory


@pytest.fixture
def data() -> Iterator[Path]:
    with data_directory() as data:
        yield data


def refused(*args: str, url: str | None = None, status: int, **env: str) -> str:
    """Returns the one line with which `interlock up` ends."""
    done = interlock("up", "--port", "0", *args, url=url, **env)
    return only_line(done, status)


def only_line(done: "subprocess.CompletedProcess[str]", status: int) -> str:
    assert (done.returncode, done.stdout) == (status, "")
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("interlock: ")]
    assert lines == done.stderr.splitlines()[-1:]
    return lines[0]


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    with listen("127.0.0.1", 0) as listener:
        yield listener


def test_a_used_port_is_named_and_nothing_was_started(data: Path, taken: socket.socket) -> None:
    port = str(taken.getsockname()[1])
    done = interlock("up", "--data-dir", str(data), "--port", port)
    assert done.stderr.count("\n") == 1
    assert f"Port {port} on 127.0.0.1 is used by another program" in only_line(done, 69)
    assert not data.exists()


def test_an_address_where_no_database_answers(taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    taken.close()
    line = refused(url=f"postgresql://user:secret@127.0.0.1:{port}/name", status=69)
    assert f"No database answers at postgresql://user@127.0.0.1:{port}/name" in line
    assert "secret" not in line


def test_a_wrong_password_is_refused_and_not_quoted(interlock_url: str) -> None:
    execute(interlock_url, "DROP ROLE IF EXISTS up_test")
    execute(interlock_url, "CREATE ROLE up_test LOGIN PASSWORD 'right'")
    parts = urlsplit(interlock_url)
    url = f"postgresql://up_test:{quote('wr@ng')}@{parts.hostname}:{parts.port}{parts.path}"
    try:
        line = refused(url=url, status=77)
    finally:
        execute(interlock_url, "DROP ROLE up_test")
    assert "refused this process" in line
    assert "wr@ng" not in line
    assert "wr%40ng" not in line


@pytest.mark.exhaustive
def test_a_database_that_does_not_exist(server_url: str) -> None:
    assert "nowhere" in refused(url=on_database(server_url, "nowhere"), status=77)


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("url", ["mysql://user:secret@host/name", "host/name", "postgresql://host:port/name"])
def test_an_invalid_database_url(url: str) -> None:
    line = refused(url=url, status=78)
    assert "postgresql://user:password@host:5432/database" in line
    assert "secret" not in line


def test_a_foreign_schema_is_not_touched(database_url: str) -> None:
    execute(database_url, "CREATE SCHEMA interlock CREATE TABLE theirs ()")
    assert "not Interlock's" in refused(url=database_url, status=78)


def test_missing_binaries(data: Path, tmp_path: Path) -> None:
    line = refused("--data-dir", str(data), INTERLOCK_PG_BIN=str(tmp_path), status=69)
    assert str(tmp_path) in line
    assert "INTERLOCK_PG_BIN" in line


@pytest.mark.exhaustive
def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert str(file) in refused("--data-dir", str(file), status=73)


def test_a_data_directory_that_cannot_be_created() -> None:
    assert "--data-dir" in refused("--data-dir", "/proc/interlock", status=73)


def test_a_data_directory_that_may_not_be_written(data: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere; /proc, above, is where it may not")
    data.mkdir(mode=0o555)
    assert str(data) in refused("--data-dir", str(data), status=73)


def test_the_error_without_the_servers_packages_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['fastapi'] = None; from interlock.cli import main; main(['up'])"
    done = subprocess.run(
        [sys.executable, "-c", hidden], env=environment(), capture_output=True, text=True, timeout=50, check=False
    )
    assert "pip install 'interlock[server,embedded]'" in only_line(done, 78)


@pytest.mark.exhaustive
def test_the_error_without_a_drivers_packages_says_what_to_install(interlock_url: str, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['lightkube'] = None; from interlock.cli import main; main(['up', '--port', '0'])"
    env = environment(interlock_url, INTERLOCK_DRIVERS="local,kubernetes", INTERLOCK_DATA_DIR=str(tmp_path / "data"))
    done = subprocess.run(
        [sys.executable, "-c", hidden], env=env, capture_output=True, text=True, timeout=50, check=False
    )
    assert "pip install 'interlock[kubernetes]'" in only_line(done, 78)
    assert not (tmp_path / "data").exists()


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("dns", ["rfc2136://server/zone?secret=hunter2", "bind://hunter2"])
def test_an_invalid_dns_url_is_not_quoted(interlock_url: str, tmp_path: Path, dns: str) -> None:
    line = refused(url=interlock_url, status=78, INTERLOCK_DNS=dns, INTERLOCK_DATA_DIR=str(tmp_path / "data"))
    assert "DNS" in line
    assert "hunter2" not in line


@pytest.mark.exhaustive
def test_the_driver_local_needs_a_data_directory_also_with_a_named_database(interlock_url: str) -> None:
    line = refused(url=interlock_url, INTERLOCK_DATA_DIR="/proc/interlock", status=73)
    assert "INTERLOCK_DRIVERS" in line
