"""Two engines that speak DynamoDB's protocol, as real processes: ministack (Python) and dynalite (Node).

Neither is a dependency of Interlock: ministack pins botocore, so it has an environment of its own. Both are installed
into `.engines` when a test first needs them. A run has one ministack, because it takes seconds to start.
"""

import asyncio
import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from interlock.stores.dynamodb.address import parsed
from interlock.stores.dynamodb.client import Client
from interlock.stores.dynamodb.table import create
from support.components import lacking, required

ENGINES = ("ministack", "dynalite")
_HOME = Path(__file__).parents[2] / ".engines"
_MINISTACK = "ministack==1.5.33"
_DYNALITE = "dynalite@4.0.0"
_PATIENCE = 30.0

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""The engines accept any credentials; without them the client would search for the role of the machine, for long."""


@contextmanager
def running(engine: str) -> Iterator[str]:
    """Yields its endpoint."""
    program, *options = _ministack() if engine == "ministack" else _dynalite()
    port = _free_port()
    log = _HOME / f"{engine}-{os.getpid()}.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [program, *(option.format(port=port) for option in options)],
            env=os.environ | {"GATEWAY_PORT": str(port), "SERVICES": "dynamodb", "LOG_LEVEL": "ERROR"},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        _await(port, process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        log.unlink()


def fresh_table(endpoint: str, *, key: str = "lock_key", **parameters: str) -> str:
    """The URL of a new table that is ready for leases. It is removed together with its engine."""
    url = table_url(endpoint, f"locks-{uuid4().hex[:12]}", **parameters)
    asyncio.run(_create(url, key))
    return url


def table_url(endpoint: str, table: str, **parameters: str) -> str:
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return f"dynamodb://{table}?region=eu-west-1&endpoint={quote(endpoint, safe='')}" + (f"&{query}" if query else "")


async def _create(url: str, key: str) -> None:
    client = Client(parsed(url))
    try:
        await create(client, key)
    finally:
        await client.close()


def _ministack() -> list[str]:
    home = _HOME / "ministack"
    program = home / "bin" / "ministack"
    with _alone():
        if not program.exists():
            _run("ministack", sys.executable, "-m", "venv", "--clear", str(home))
            _run("ministack", str(home / "bin" / "pip"), "install", "--quiet", _MINISTACK)
    return [str(program)]


def _dynalite() -> list[str]:
    npm = required("npm", package="npm")
    program = _HOME / "dynalite" / "node_modules" / ".bin" / "dynalite"
    with _alone():
        if not program.exists():
            _run(
                "dynalite",
                str(npm),
                "install",
                "--no-audit",
                "--no-fund",
                "--prefix",
                str(_HOME / "dynalite"),
                _DYNALITE,
            )
    return [str(program), "--host", "127.0.0.1", "--port", "{port}", "--createTableMs", "0", "--updateTableMs", "0"]


@contextmanager
def _alone() -> Iterator[None]:
    """A lock by which only one of the test processes installs."""
    _HOME.mkdir(exist_ok=True)
    with (_HOME / "installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(engine: str, *command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        lacking(f"{engine} cannot be installed: {(ended.stderr or ended.stdout).strip().splitlines()[-1]}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _await(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up_at = time.monotonic() + _PATIENCE
    while time.monotonic() < give_up_at and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"{process.args!r} did not start: {log.read_text(errors='replace')[-500:]}")
