"""A watcher that reads the rows of leases all the time, and records their holders."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from interlock.clock import boottime
from support.history_recorder import Recorder

# An expired lease has no holder. Expiry counts by the begin of the statement, because the row is read after it: by
# a later one, a lease that was renewed meanwhile would seem to have expired.
_LOOK = """
    SELECT l.name, CASE WHEN l.expires_at > statement_timestamp() THEN l.grant_id END
      FROM interlock.lease l WHERE l.name = ANY (%s)
"""
_EVERY = 0.02


@contextmanager
def watched(url: str, directory: Path, names: list[str]) -> Iterator[None]:
    """Observations are recorded in `directory`. The server may be unavailable from time to time."""
    recorder = Recorder(directory, "watcher")
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(url, recorder, names, done))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        recorder.close()


def _watch(url: str, recorder: Recorder, names: list[str], done: threading.Event) -> None:
    while not done.is_set():
        with suppress(psycopg.OperationalError), psycopg.connect(url, autocommit=True) as connection:
            while not done.wait(_EVERY):
                began_at = boottime()
                for name, grant_id in connection.execute(_LOOK, [names]).fetchall():
                    recorder.seen(name, grant_id, began_at=began_at)
