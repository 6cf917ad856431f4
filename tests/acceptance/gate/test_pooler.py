"""A pooler in transaction mode would hand two replicas the same lock; the gate does not go through one."""

import getpass
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from interlock import AsyncGate, errors
from support.components import required
from support.postgres import open_directory
from support.programs import interlock
from support.waiting import eventually

POOLS = {"transaction": [], "session": ["--session-pooler"]}


@pytest.fixture(params=POOLS)
def pooled(request: pytest.FixtureRequest, interlock_url: str) -> Iterator[tuple[str, str]]:
    """A pooler's mode, and a URL that leads through it."""
    program = required("pgbouncer", package="pgbouncer")
    with open_directory("interlock-pgbouncer-") as directory:
        port = _free_port()
        (directory / "pgbouncer.ini").write_text(_configuration(interlock_url, directory, port, request.param))
        (directory / "users.txt").write_text(f'"{urlsplit(interlock_url).username}" ""\n')
        user = "nobody" if os.geteuid() == 0 else getpass.getuser()
        process = subprocess.Popen(
            [program, "-q", str(directory / "pgbouncer.ini")],
            user=user if os.geteuid() == 0 else None,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: _answers(port))
            yield request.param, f"postgresql://{urlsplit(interlock_url).username}@127.0.0.1:{port}/pooled"
        finally:
            process.terminate()
            process.wait()


def test_only_a_pooler_that_is_stated_to_be_in_session_mode_is_gone_through(pooled: tuple[str, str]) -> None:
    mode, url = pooled
    plain = interlock("gate", "run", "--", "true", url=url)
    assert plain.returncode == 78
    assert "is a connection pooler" in plain.stderr
    assert "--session-pooler" in plain.stderr
    assert "Traceback" not in plain.stderr
    if mode == "session":
        stated = interlock("gate", "run", "--session-pooler", "--", "true", url=url)
        assert stated.returncode == 0, stated.stderr


def _configuration(url: str, directory: Path, port: int, mode: str) -> str:
    parts = urlsplit(url)
    database = parts.path.lstrip("/")
    return f"""
[databases]
pooled = host={parts.hostname} port={parts.port} dbname={database} user={parts.username} password={parts.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory / "users.txt"}
pool_mode = {mode}
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


async def test_a_pooler_that_is_wrongly_stated_to_be_in_session_mode_is_found_out(pooled: tuple[str, str]) -> None:
    mode, url = pooled
    if mode == "transaction":
        with pytest.raises(errors.PoolerRefused, match="in transaction mode"):
            await AsyncGate("shop", url=url, session_pooler=True).enter()
        return
    async with AsyncGate("shop", url=url, session_pooler=True) as first:
        with pytest.raises(errors.GateBusy):
            await AsyncGate("shop", url=url, session_pooler=True, policy="fail").enter()
        first.check()
