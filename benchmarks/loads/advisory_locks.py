"""Raw `pg_advisory_lock` on one connection: not durable, not fenced, and without a signal when it is lost."""

import hashlib

import psycopg

from benchmarks.loads.lock_program import serve_locks
from benchmarks.loads.protocol import Settings


class AdvisoryLock:
    def __init__(self, url: str, name: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)

    def acquire(self) -> None:
        self._connection.execute("SELECT pg_advisory_lock(%s)", [self._key])

    def release(self) -> None:
        self._connection.execute("SELECT pg_advisory_unlock(%s)", [self._key])


def main(settings: Settings) -> None:
    serve_locks(lambda name: AdvisoryLock(settings["url"], name), settings)
