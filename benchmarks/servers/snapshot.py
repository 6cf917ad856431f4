"""A database with an old open snapshot: vacuum cannot remove rows that were deleted since."""

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
    """Another database than that of the other scenarios: a snapshot hinders vacuum only in its own database."""
    url = server.make_database("aged")
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM interlock.lease")
        yield AgedDatabase(url)
        connection.rollback()
