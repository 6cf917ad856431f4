"""The alternative to the façade: each thread sends its own statements over its own psycopg connection.

Leaner than a real client could be: nothing renews, nothing watches, nothing waits.
"""

import uuid

import psycopg

from benchmarks.loads.lock_program import serve_locks
from benchmarks.loads.protocol import Settings

_ACQUIRE = "SELECT status, token FROM interlock.acquire_v1(%s, %s, 30, 'direct')"
_RELEASE = "SELECT set_config('synchronous_commit', 'off', true), interlock.release_v1(%s, %s, %s)"


class DirectLease:
    def __init__(self, url: str, name: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._name = name
        self._grant: tuple[int, uuid.UUID] | None = None

    def acquire(self) -> None:
        grant_id = uuid.uuid4()
        row = self._connection.execute(_ACQUIRE, [self._name, grant_id]).fetchone()
        assert row is not None
        assert row[0] == "granted", row
        self._grant = (row[1], grant_id)

    def release(self) -> None:
        assert self._grant is not None
        self._connection.execute(_RELEASE, [self._name, *self._grant])


def main(settings: Settings) -> None:
    serve_locks(lambda name: DirectLease(settings["url"], name), settings)
