"""A replica with an APScheduler that fires only while it leads; tests kill, suspend and continue it.

python -m support.scheduler_worker JOB
"""

import json
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
from apscheduler.events import EVENT_JOB_SUBMITTED
from apscheduler.schedulers.background import BackgroundScheduler

from interlock import Interlock, LeaseLost
from interlock.integrations.apscheduler import Led

TABLES = """
    CREATE TABLE fired (position bigserial PRIMARY KEY, tick timestamptz, token bigint, pid integer);
    CREATE TABLE run (position bigserial PRIMARY KEY, token bigint, phase text)
"""


class Scheduler(Led, BackgroundScheduler):  # type: ignore[misc]
    pass


@dataclass(frozen=True)
class Job:
    url: str
    interval: float = 0.1
    ttl: float = 4.0


class Worker:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._scheduler = Scheduler(locks=Interlock(job.url), name="nightly", ttl=job.ttl)
        self._fired = psycopg.connect(job.url, autocommit=True)
        # All replicas have the same ticks, and catch up on a tick unless the record says that it was fired.
        ticks = {"seconds": job.interval, "start_date": datetime(2020, 1, 1, tzinfo=UTC)}
        self._scheduler.add_job(self._run, "interval", **ticks, coalesce=False, misfire_grace_time=60)
        self._scheduler.add_listener(self._note_fired, EVENT_JOB_SUBMITTED)

    def run(self) -> None:
        self._scheduler.start()
        threading.Event().wait()

    def _note_fired(self, event: Any) -> None:
        term = self._scheduler.term
        for tick in event.scheduled_run_times:
            insert = "INSERT INTO fired (tick, token, pid) VALUES (%s, %s, %s)"
            self._fired.execute(insert, [tick, term and term.token, os.getpid()])

    def _run(self) -> None:
        term = self._scheduler.term
        if term is None:
            return
        # After a suspension in a guarded transaction the server has terminated the session.
        with suppress(LeaseLost, psycopg.Error), psycopg.connect(self._job.url) as connection:
            for phase in ("begun", "done"):
                with connection.transaction():
                    term.guard(connection)
                    connection.execute("INSERT INTO run (token, phase) VALUES (%s, %s)", [term.token, phase])


if __name__ == "__main__":
    Worker(Job(**json.loads(sys.argv[1]))).run()
