"""Databases for tests: one cluster per run, and a new database per test, cloned from a template."""

import itertools
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from interlock.embedded import Cluster, find_binaries
from interlock.schema import whole_schema
from support.components import required

_numbers = itertools.count(1)
_kept = threading.local()

# The data of tests need not survive a crash, and waiting for the disk would take most of the time.
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


@contextmanager
def open_directory(prefix: str) -> Iterator[Path]:
    """A directory that PostgreSQL's system user can enter, even if root runs the tests."""
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=_roomiest()))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _roomiest() -> str:
    """A directory in memory if a gigabyte is free: a database is cloned in 20 ms there, and in 300 ms on a disk."""
    memory = "/dev/shm"
    try:
        room = os.statvfs(memory)
    except OSError:
        return "/tmp"
    return memory if room.f_bavail * room.f_frsize > 2**30 and os.access(memory, os.W_OK) else "/tmp"


@contextmanager
def running_cluster(settings: Mapping[str, str] = QUICK) -> Iterator[Cluster]:
    pg_bin = os.environ.get("INTERLOCK_PG_BIN")
    with open_directory("interlock-test-") as directory:
        binaries = find_binaries(Path(pg_bin) if pg_bin else None)
        cluster = Cluster(directory / "pg", port="free", tls=False, settings=settings, binaries=binaries)
        cluster.create()
        with cluster.shared():
            try:
                _make_logins_cheap(cluster.url())
                yield cluster
            finally:
                cluster.stop("immediate")


def _make_logins_cheap(url: str) -> None:
    """Reduce the cost of logins: a run opens thousands of connections, and deriving a key from the password is slow."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.info.server_version >= 160000:
            connection.execute("SET scram_iterations = 1")
            secret = sql.Literal(connection.info.password)
            connection.execute(sql.SQL("ALTER ROLE CURRENT_USER PASSWORD {}").format(secret))


def on_database(url: str, database: str) -> str:
    """The URL of another database on the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def execute(url: str, statement: str | sql.Composed, *args: Any) -> list[tuple[Any, ...]]:
    """Run one statement and commit, on a new connection or, inside `kept_connections`, on the persistent one."""
    kept: dict[str, psycopg.Connection] | None = getattr(_kept, "connections", None)
    if kept is None:
        with psycopg.connect(url, autocommit=True) as connection:
            return _rows(connection, statement, args)
    if url in kept:
        try:
            return _rows(kept[url], statement, args)
        except psycopg.OperationalError:  # the server may have ended the session since its last use
            if not kept[url].broken:
                raise
    kept[url] = psycopg.connect(url, autocommit=True, prepare_threshold=None)  # the URL may be that of a pooler
    return _rows(kept[url], statement, args)


def _rows(connection: psycopg.Connection, statement: str | sql.Composed, args: Sequence[Any]) -> list[tuple[Any, ...]]:
    cursor = connection.execute(statement, args or None)
    return cursor.fetchall() if cursor.description else []


@contextmanager
def kept_connections() -> Iterator[None]:
    """Inside the block `execute` reuses connections in this thread, which saves most of its time."""
    before = getattr(_kept, "connections", None)
    mine: dict[str, psycopg.Connection] = {}
    _kept.connections = mine
    try:
        yield
    finally:
        _kept.connections = before
        for connection in mine.values():
            connection.close()


@contextmanager
def fresh_database(server_url: str, template: str, administrator: psycopg.Connection | None = None) -> Iterator[str]:
    """`administrator` is an open connection; without it, two are opened."""

    def order(statement: sql.Composed) -> None:
        if administrator is None:
            execute(server_url, statement)
        else:
            administrator.execute(statement)

    name = f"test_{os.getpid()}_{next(_numbers)}"
    clone = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    order(clone)
    try:
        yield on_database(server_url, name)
    finally:
        order(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def make_template(server_url: str) -> str:
    """Create the database with Interlock's schema that tests clone."""
    execute(server_url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier("interlock_template")))
    execute(on_database(server_url, "interlock_template"), whole_schema("interlock"))
    return "interlock_template"


def dumped(url: str, *options: str) -> str:
    """The whole database as `pg_dump` writes it."""
    pg_bin = os.environ.get("INTERLOCK_PG_BIN")
    own = find_binaries(Path(pg_bin) if pg_bin else None).bin_dir / "pg_dump"
    program = own if own.exists() else required("pg_dump", package="postgresql-client")
    return subprocess.run([str(program), url, *options], capture_output=True, text=True, check=True).stdout
