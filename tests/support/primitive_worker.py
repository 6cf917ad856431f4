"""One of several processes that elect a leader, share slots, or run something once or periodically; tests kill them.

    python -m support.primitive_worker JOB

It writes its actions to the database under the guard of its grant, and records them in a file of its own.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

import psycopg

from interlock import AsyncGrant, AsyncInterlock
from interlock.clock import boottime
from support.history_recorder import Recorder
from support.lease_worker import Job as Writing
from support.lease_worker import Pen

RUNS = """
    CREATE TABLE run (position bigserial PRIMARY KEY, tick timestamptz, token bigint, phase text, at double precision)
"""
EFFECTS = "CREATE TABLE effect (position bigserial PRIMARY KEY, process text, phase text)"


@dataclass(frozen=True)
class Job:
    """`kind` is one of `KINDS`; `number` is the number of slots, or of runs to catch up."""

    kind: str
    url: str
    directory: str
    process: str
    name: str = "it"
    ttl: float = 0.5
    number: int = 1
    interval: float = 1.0


class Worker:
    def __init__(self, job: Job) -> None:
        self.job = job
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 # closed by `stop`
        tests = str(Path(__file__).parent.parent)
        paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), tests]))
        command = [sys.executable, "-m", __spec__.name, json.dumps(asdict(job))]
        self._process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, stderr=self._complaints)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> float:
        """Kill the worker. Returns the time, on the clock that all processes share."""
        at = boottime()
        self._process.send_signal(SIGKILL)
        self._process.wait()
        return at

    def stop(self) -> str:
        """Its standard error."""
        self._process.kill()
        self._process.wait()
        self._complaints.seek(0)
        complaint = self._complaints.read()
        self._complaints.close()
        return complaint


class Team:
    """Workers of one kind. Killed ones are replaced."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.workers: dict[int, Worker] = {}
        self.gone: list[Worker] = []
        self._hired = 0

    def hire(self, count: int = 1) -> None:
        for _ in range(count):
            worker = Worker(Job(**asdict(self._job) | {"process": f"worker-{self._hired}"}))
            self._hired += 1
            self.workers[worker.pid] = worker

    def kill(self, pid: int, *, replace: bool = True) -> float:
        self.check()
        worker = self.workers.pop(pid)
        at = worker.kill()
        self.gone.append(worker)
        if replace:
            self.hire()
        return at

    def check(self) -> None:
        for pid, worker in self.workers.items():
            if not worker.is_alive:
                del self.workers[pid]
                raise AssertionError(f"{worker.job.process} ended by itself: {worker.stop()}")

    def dismiss(self) -> list[str]:
        complaints = [worker.stop() for worker in [*self.workers.values(), *self.gone]]
        self.workers.clear()
        self.gone.clear()
        return [complaint for complaint in complaints if "Traceback" in complaint]


@contextmanager
def team(job: Job, count: int) -> Iterator[Team]:
    members = Team(job)
    try:
        members.hire(count)
        yield members
    finally:
        complaints = members.dismiss()
    assert complaints == []


class Notes:
    """Records a worker's events with a grant."""

    def __init__(self, job: Job) -> None:
        self.recorder = Recorder(Path(job.directory), job.process)
        self.pen = Pen(Writing(job.url, job.directory, job.process, [job.name], job.ttl), self.recorder)

    def begin(self, grant: AsyncGrant) -> None:
        self.recorder.granted(grant)
        grant.on_lost(partial(lambda grant, _: self.recorder.lost(grant), grant))
        grant.on_renewed(partial(lambda grant, _: self.recorder.trusted(grant), grant))


async def lead(job: Job, locks: AsyncInterlock) -> None:
    notes = Notes(job)
    async for term in locks.lease(job.name, ttl=job.ttl).terms():
        async with term:
            notes.begin(term)
            while True:
                await notes.pen.write(term)
                await asyncio.sleep(0.01)


async def share(job: Job, locks: AsyncInterlock) -> None:
    """Acquires one slot at a time."""
    notes = Notes(job)
    while True:
        grant = await locks.lease(job.name, ttl=job.ttl, slots=job.number).acquire()
        notes.begin(grant)
        await notes.pen.write(grant)
        await asyncio.sleep(0.05)
        notes.recorder.ended(grant)
        await grant.release()


async def read_or_write(job: Job, locks: AsyncInterlock) -> None:
    notes = Notes(job)
    catalog = locks.shared(job.name, readers=job.number, ttl=job.ttl)
    while True:
        grant = await (catalog.write() if random.random() < 0.3 else catalog.read()).acquire()
        notes.begin(grant)
        await notes.pen.write(grant)
        await asyncio.sleep(0.02)
        notes.recorder.ended(grant)
        await grant.release()


async def run_once(job: Job, locks: AsyncInterlock) -> None:
    """Begins, and takes effect when the test allows it."""

    async def work() -> str:
        async with await psycopg.AsyncConnection.connect(job.url, autocommit=True) as connection:
            await connection.execute("INSERT INTO effect (process, phase) VALUES (%s, 'begun')", [job.process])
            while not (Path(job.directory) / "go").exists():  # noqa: ASYNC110 # another process says so
                await asyncio.sleep(0.01)
            await connection.execute("INSERT INTO effect (process, phase) VALUES (%s, 'done')", [job.process])
        return job.process

    result = await locks.once(job.name, work, ttl=job.ttl)
    async with await psycopg.AsyncConnection.connect(job.url, autocommit=True) as connection:
        await connection.execute("INSERT INTO effect (process, phase) VALUES (%s, 'result')", [result])
    await asyncio.Event().wait()


async def run_every(job: Job, locks: AsyncInterlock) -> None:
    connection = await psycopg.AsyncConnection.connect(job.url, autocommit=True)

    async def note(grant: AsyncGrant, phase: str) -> None:
        async with connection.transaction():
            await grant.guard(connection)
            insert = "INSERT INTO run (tick, token, phase, at) VALUES (%s, %s, %s, %s)"
            await connection.execute(insert, [sweep.tick, grant.token, phase, boottime()])

    @locks.every(job.interval, job.name, missed=job.number, ttl=job.ttl)
    async def sweep(grant: AsyncGrant) -> None:
        grant.on_lost(lambda _: (Path(job.directory) / f"{grant.token}.lost").touch())
        await note(grant, "begun")
        await asyncio.sleep(0.02)
        await note(grant, "done")

    await sweep.run()


KINDS: dict[str, Callable[[Job, AsyncInterlock], Coroutine[Any, Any, None]]] = {
    "lead": lead,
    "share": share,
    "read or write": read_or_write,
    "once": run_once,
    "every": run_every,
}


if __name__ == "__main__":
    job = Job(**json.loads(sys.argv[1]))
    asyncio.run(KINDS[job.kind](job, AsyncInterlock(job.url, replica=job.process)))
