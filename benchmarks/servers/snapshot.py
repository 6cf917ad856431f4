"""A database on which somebody keeps an old snapshot open: nothing that was deleted since can be cleaned away."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from benchmarks.servers.postgres import Postgres


@dataclass(frozen=True)
class AgedDatabase:
    url: str
    opened_at: float = field(default_factory=time.monotonic)

    def age(self) -> float:
        """Seconds since the snapshot was taken."""
        return time.monotonic() - self.opened_at


@contextmanager
def aged_database(server: Postgres) -> Iterator[AgedDatabase]:
    """A database of its own: a snapshot holds up the cleaning of its own database only."""
    url = server.make_database("aged")
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM interlock.lease")
        yield AgedDatabase(url)
        connection.rollback()
