"""dynalite: an engine that speaks DynamoDB's protocol, in memory. It is not AWS: it shows the cost of clients."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.equipment import CACHE, which
from benchmarks.servers.process import ServerFailed, free_port, running
from interlock.stores.dynamodb.address import parsed
from interlock.stores.dynamodb.client import Client
from interlock.stores.dynamodb.table import create

_PACKAGE = "dynalite@4.0.0"
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_EC2_METADATA_DISABLED": "true"}


@contextmanager
def dynalite(directory: Path) -> Iterator[str]:
    """The URL of a table that is ready for leases; other clients need only its endpoint."""
    program = _installed()
    port = free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0"]
    os.environ.update(_CREDENTIALS)  # inherited by the loads; the engine accepts any
    with running([str(program), *options], directory, port):
        url = f"dynamodb://locks?region=eu-west-1&endpoint=http://127.0.0.1:{port}"
        asyncio.run(_create(url))
        yield url


def _installed() -> Path:
    home = CACHE / "dynalite"
    program = home / "node_modules" / ".bin" / "dynalite"
    if not program.exists():
        npm = which("npm")
        if npm is None:
            raise ServerFailed("there is no npm on this machine; Debian: apt-get install npm")
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(home), _PACKAGE]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise ServerFailed((ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1])
    return program


async def _create(url: str) -> None:
    client = Client(parsed(url))
    try:
        await create(client, "lock_key")
    finally:
        await client.close()
