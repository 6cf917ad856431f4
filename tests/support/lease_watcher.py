"""Somebody who reads the rows of leases all the time, and notes whose they are."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from interlock.clock import boottime
from support.history_recorder import Recorder

# A lease that has expired is nobody's. By the time at which the statement came in, because the row is read after it: by
# a later one, a lease that was renewed meanwhile would seem to have expired.
_LOOK = """
    SELECT l.name, CASE WHEN l.expires_at > statement_timestamp() THEN l.grant_id END
      FROM interlock.lease l WHERE l.name = ANY (%s)
"""
_EVERY = 0.02


@contextmanager
def watched(url: str, directory: Path, names: list[str]) -> Iterator[None]:
    """What is seen is noted in `directory`, also while the server is gone now and then."""
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
