"""PostgreSQL from Interlock's own binaries: durable, on a TCP port like its peers, without TLS like them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from benchmarks.waiting import wait_until
from interlock.embedded import Cluster, find_binaries
from interlock.errors import BinariesMissing
from interlock.schema import whole_schema

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "400",
    "max_wal_size": "4GB",  # no checkpoint in the middle of a round
    "checkpoint_timeout": "30min",
}
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
RAW_TABLE = Path(__file__).parents[1] / "sql" / "raw_lease.sql"


class Postgres:
    """A running server for the benchmarks alone."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._binaries = find_binaries()
        self.version = "{}.{}".format(*self._binaries.version)

    def make_database(self, name: str) -> str:
        """Create a database with Interlock's schema and the table of the raw statements. Returns its URL."""
        execute(self._cluster.url(tcp=True), sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        url = urlunsplit(urlsplit(self._cluster.url(tcp=True))._replace(path=f"/{name}"))
        execute(url, sql.SQL(_trusted(whole_schema("interlock"))))
        execute(url, sql.SQL(_trusted(RAW_TABLE.read_text())))
        return url

    def tool(self, name: str) -> str | None:
        """The path of a program of this PostgreSQL, else of the system's, else None."""
        try:
            return str(self._binaries.tool(name))
        except BinariesMissing:
            return shutil.which(name)


@contextmanager
def postgres(directory: Path) -> Iterator[Postgres]:
    cluster = Cluster(directory, port="free", tls=False, settings=SETTINGS)
    with cluster.shared():
        yield Postgres(cluster)


def execute(url: str, statement: sql.SQL | sql.Composed, *args: Any) -> list[tuple[Any, ...]]:
    """One statement on a connection of its own, committed."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, args or None)
        return cursor.fetchall() if cursor.description else []


def settled_wal_syncs(url: str) -> int:
    """The number of log syncs of this server so far, counted when all other sessions have left the database of `url`.

    A session reports what it did when it ends, or seconds later.
    """
    wait_until(lambda: execute(url, sql.SQL(_OTHERS))[0][0] == 0, what="everybody has left the database")
    [[version]] = execute(url, sql.SQL("SELECT current_setting('server_version_num')::int"))
    newer = "SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal'"
    older = "SELECT wal_sync FROM pg_stat_wal"
    [[count]] = execute(url, sql.SQL(newer if version >= 180000 else older))
    return int(count)


def _trusted(statements: str) -> LiteralString:
    return statements  # they come from files of this repository
