"""PgBouncer in front of a test's database, as a real process."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from support.components import required
from support.postgres import open_directory
from support.waiting import eventually

PoolMode = Literal["transaction", "session", "statement"]


@contextmanager
def pooled(url: str, mode: PoolMode, *, pool_size: int = 20, in_turn: bool = False) -> Iterator[str]:
    """A URL to the database of `url` through a pooler in that mode, with so many server sessions.

    With `in_turn` the pooler uses the session that was idle longest; otherwise the one that was used last.
    """
    program = required("pgbouncer", package="pgbouncer")
    with open_directory("interlock-pgbouncer-") as directory:
        port = _free_port()
        user = urlsplit(url).username
        (directory / "pgbouncer.ini").write_text(
            _configuration(url, directory, port, mode, pool_size) + f"server_round_robin = {in_turn:d}\n"
        )
        (directory / "users.txt").write_text(f'"{user}" ""\n')
        process = subprocess.Popen(
            [program, "-q", str(directory / "pgbouncer.ini")],
            user="nobody" if os.geteuid() == 0 else None,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: _answers(port))
            yield f"postgresql://{user}@127.0.0.1:{port}/pooled"
        finally:
            process.terminate()
            process.wait()


def _configuration(url: str, directory: Path, port: int, mode: PoolMode, pool_size: int) -> str:
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
default_pool_size = {pool_size}
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
