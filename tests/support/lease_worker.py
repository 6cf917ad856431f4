"""One process of several that take turns with leases, write under their guard, and note down what they did.

    python -m support.lease_worker URL DIRECTORY PROCESS NAMES TTL

It goes on, whatever happens to the database, until SIGTERM. Its own writes go through a connection of their own, by
the SQL functions alone. `LEDGER` is the table that they go to.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg

from interlock import AsyncInterlock, errors
from interlock.coordination.grant import AsyncGrant
from support.histories import Write
from support.postgres import execute
from support.recording import Recorder

Process = subprocess.Popen[str]
LEDGER = "CREATE TABLE ledger (position bigserial PRIMARY KEY, name text NOT NULL, token bigint NOT NULL)"


@contextmanager
def workers(url: str, directory: Path, *, count: int, names: list[str], ttl: float) -> Iterator[list[Process]]:
    """So many of them at work; what they note is in `directory`."""
    tests = str(Path(__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), tests]))}
    running: list[Process] = []
    try:
        for number in range(count):
            command = [
                sys.executable,
                "-m",
                __spec__.name,
                url,
                str(directory),
                f"worker-{number}",
                ",".join(names),
                str(ttl),
            ]
            running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()


def ended(process: Process) -> tuple[int, str]:
    """Ask it to stop, and wait for that: its exit status, and what it complained of."""
    process.terminate()
    _, complaint = process.communicate(timeout=20)
    return process.returncode, complaint


def ledger(url: str) -> list[Write]:
    rows = execute(url, "SELECT name, position, token FROM ledger")
    return [Write(name, position, token) for name, position, token in rows]


async def work(url: str, recorder: Recorder, names: list[str], ttl: float) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    locks = AsyncInterlock(url)
    while not stopping.is_set():
        try:
            grant = await locks.lease(random.choice(names), ttl=ttl).acquire(timeout=10)
        except (errors.LeaseNotAcquired, errors.StoreError):
            continue
        recorder.granted(grant)
        grant.on_lost(partial(lambda grant, _: recorder.ended(grant), grant))
        with suppress(psycopg.OperationalError):
            await write(url, recorder, grant)
        recorder.trusted(grant)
        recorder.ended(grant)
        await grant.release()
    await locks.close()


async def write(url: str, recorder: Recorder, grant: AsyncGrant) -> None:
    """Look what earlier holders wrote, and then write under the guard."""
    connection = await psycopg.AsyncConnection.connect(url, options="-c synchronous_commit=on")
    try:
        look = "SELECT count(*) FROM ledger WHERE name = %s AND token < %s"
        cursor = await connection.execute(look, [grant.name, grant.token])
        ((number,),) = await cursor.fetchall()
        await connection.commit()
        recorder.looked(grant, number)
        guard = "SELECT interlock.guard_v1(%s, %s, %s)"
        await connection.execute(guard, [grant.name, grant.token, grant.grant_id])
        insert = "INSERT INTO ledger (name, token) VALUES (%s, %s) RETURNING position"
        cursor = await connection.execute(insert, [grant.name, grant.token])
        ((position,),) = await cursor.fetchall()
        await connection.commit()
        recorder.acknowledged(grant, position)
    except psycopg.Error as error:
        if error.sqlstate != "IL001":
            raise
        recorder.refused(grant)
    finally:
        await connection.close()


if __name__ == "__main__":
    _, url, directory, process, names, ttl = sys.argv
    asyncio.run(work(url, Recorder(Path(directory), process), names.split(","), float(ttl)))
