"""One of several processes that take turns with leases, write under their guard, and record their events.

    python -m support.lease_worker JOB

It continues until SIGTERM, whatever happens to the database. Its writes use connections of their own, by the SQL
functions alone, and may go through a pooler. `LEDGER` is their table.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg

from interlock import AsyncInterlock, errors
from interlock.coordination.lease.grant import AsyncGrant
from support import worker_variants
from support.histories import Write
from support.history_recorder import Recorder
from support.postgres import execute

LEDGER = "CREATE TABLE ledger (position bigserial PRIMARY KEY, name text NOT NULL, token bigint NOT NULL)"

_LOOK = "SELECT count(*) FROM ledger WHERE name = %s AND token < %s"
_GUARD = """
    SELECT set_config('synchronous_commit', 'on', true), set_config('idle_in_transaction_session_timeout', %s, true),
           interlock.guard_v1(%s, %s, %s)
"""
_WRITE = "INSERT INTO ledger (name, token) VALUES (%s, %s) RETURNING position"
_REFUSED = "IL001"
# The second: of a session that was idle for too long, and of one that ended in the middle of an answer.
_LOST = (psycopg.OperationalError, psycopg.InternalError)


@dataclass(frozen=True)
class Job:
    """`tasks` is the number of tasks that take turns in the process. A guarded transaction stays open for `dwell`
    seconds, and the lease is held for `linger` seconds after it; the next acquire comes after at most `rest` seconds.
    `brisk`: releases are not awaited. `steady`: each task uses one of the names. `writes`: the worker writes to the
    ledger, at `ledger_url` if it differs from the URL of the leases. `variant` is one of `support.worker_variants`.
    """

    url: str
    directory: str
    process: str
    names: list[str]
    ttl: float
    tasks: int = 1
    dwell: float = 0.0
    linger: float = 0.0
    rest: float = 0.0
    brisk: bool = False
    steady: bool = False
    writes: bool = True
    ledger_url: str = ""
    variant: str = ""


class Worker:
    """A running worker. Its standard error goes to a file, because it is not read while the worker runs."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 # closed in the end, by `stop`
        tests = str(Path(__file__).parent.parent)
        paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), tests]))
        command = [sys.executable, "-m", __spec__.name, json.dumps(asdict(job))]
        self._process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, stderr=self._complaints)

    @property
    def name(self) -> str:
        return self.job.process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    def wait(self) -> tuple[int, str]:
        """Wait for its end. Returns its exit status and standard error."""
        status = self._process.wait(timeout=30)
        self._complaints.seek(0)
        return status, self._complaints.read()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._complaints.close()


@contextmanager
def workers(
    url: str, directory: Path, *, count: int, names: list[str], ttl: float, first: int = 0, **more: Any
) -> Iterator[list[Worker]]:
    """So many running workers, numbered from `first`, whose records are in `directory`. For the rest see `Job`."""
    running: list[Worker] = []
    try:
        for number in range(first, first + count):
            job = Job(url, str(directory), f"worker-{number}", names, ttl, **more)
            running.append(Worker(job))
        yield running
    finally:
        for worker in running:
            worker.stop()


def ended(worker: Worker) -> tuple[int, str]:
    """Stop the worker. Returns its exit status and standard error."""
    worker.send(signal.SIGTERM)
    return worker.wait()


def ledger(url: str) -> list[Write]:
    rows = execute(url, "SELECT name, position, token FROM ledger")
    return [Write(name, position, token) for name, position, token in rows]


async def work(job: Job) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    recorder = Recorder(Path(job.directory), job.process)
    locks = AsyncInterlock(job.url, replica=job.process)
    chosen = [[name] if job.steady else job.names for name, _ in zip(cycle(job.names), range(job.tasks), strict=False)]
    await asyncio.gather(*(take_turns(job, names, locks, recorder, stopping) for names in chosen))
    await locks.close()


async def take_turns(
    job: Job, names: list[str], locks: AsyncInterlock, recorder: Recorder, stopping: asyncio.Event
) -> None:
    pen = Pen(job, recorder)
    while not stopping.is_set():
        lease = locks.lease(random.choice(names), ttl=job.ttl, confirm_release=not job.brisk)
        try:
            grant = await lease.acquire(timeout=10)
        except (errors.LeaseNotAcquired, errors.StoreError):
            continue
        recorder.granted(grant)
        grant.on_lost(partial(lambda grant, _: recorder.lost(grant), grant))
        grant.on_renewed(partial(lambda grant, _: recorder.trusted(grant), grant))
        if job.writes:
            await pen.write(grant)
        await asyncio.sleep(job.linger)
        recorder.trusted(grant)
        recorder.ended(grant)
        with suppress(errors.LeaseLost):  # the loss was reported and is recorded
            await grant.__aexit__(None, None, None)
        if job.rest:
            await asyncio.sleep(random.uniform(0, job.rest))
    await pen.put_away()


class Pen:
    """Writes to the ledger through a persistent connection, which is opened again after a loss."""

    def __init__(self, job: Job, recorder: Recorder) -> None:
        self._url = job.ledger_url or job.url
        self._dwell = job.dwell
        self._longest_pause = f"{(1.2 * job.ttl + job.dwell) * 1000:.0f}"
        self._recorder = recorder
        self._connection: psycopg.AsyncConnection | None = None

    async def write(self, grant: AsyncGrant) -> None:
        """Read the writes of earlier holders, and then write under the guard."""
        try:
            await self._write(grant, await self._open())
        except psycopg.Error as error:
            if error.sqlstate == _REFUSED:
                self._recorder.refused(grant)
                return
            if not isinstance(error, _LOST):
                raise
            await self.put_away()

    async def put_away(self) -> None:
        if self._connection:
            await self._connection.close()
        self._connection = None

    async def _open(self) -> psycopg.AsyncConnection:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True, prepare_threshold=None)
        return self._connection

    async def _write(self, grant: AsyncGrant, connection: psycopg.AsyncConnection) -> None:
        cursor = await connection.execute(_LOOK, [grant.name, grant.token])
        ((number,),) = await cursor.fetchall()
        self._recorder.looked(grant, number)
        async with connection.transaction():
            await connection.execute(_GUARD, [self._longest_pause, grant.name, grant.token, grant.grant_id])
            await asyncio.sleep(self._dwell)
            cursor = await connection.execute(_WRITE, [grant.name, grant.token])
            ((position,),) = await cursor.fetchall()
        self._recorder.acknowledged(grant, position)


if __name__ == "__main__":
    job = Job(**json.loads(sys.argv[1]))
    worker_variants.become(job.variant)
    asyncio.run(work(job))
