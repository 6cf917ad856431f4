"""The guard of a grant that is kept in a SQLite file, in a transaction on that same file.

The guard is one UPDATE that changes nothing. The UPDATE makes the transaction the file's only writer, if it is not the
writer yet, so no process can take the lease until the transaction ends. If the transaction's snapshot is outdated,
SQLite refuses the UPDATE ("database is locked"). So the UPDATE sees the current row, and the row stays as it is. A
rollback to a savepoint does not release the writer lock.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.clock import boottime
from interlock.coordination.guards.guarded import Guarded, lost, outside, refused
from interlock.stores.sqlite.boot import boot_id
from interlock.user_connections import find_kind

_DATABASES = "PRAGMA database_list"
_GUARD = """
    UPDATE {database}.interlock_lease SET token = token
     WHERE name = {mark} AND token = {mark} AND grant_id = {mark} AND boot = {mark} RETURNING expires_at
"""
_BEGIN = "guard inside a transaction, after BEGIN IMMEDIATE"

Rows = list[tuple[Any, ...]]
Steps = Generator[tuple[str, tuple[Any, ...]], Rows, None]
Fetch = Callable[[str, tuple[Any, ...]], Rows]


@dataclass(frozen=True)
class SqliteGuards:
    """Guards for the leases of one file."""

    file: Path

    async def guard(self, grant: Guarded, connection: Any) -> None:
        grant.check()
        guard = find_kind(_ASYNC, connection)
        if guard is None:
            sync = find_kind(_SYNC, connection)
            other = "use the sync Interlock in its thread" if sync else "see docs/reference/stores.md"
            raise refused(
                grant,
                f"{_shown(connection)} is not an async connection to SQLite: pass an async connection, or {other}",
            )
        await guard(grant, self.file, connection)

    def guard_sync(self, grant: Guarded, connection: Any) -> None:
        grant.check()
        guard = find_kind(_SYNC, connection)
        if guard is None:
            raise refused(
                grant,
                f"{_shown(connection)} is not a connection to SQLite that a guard supports: pass one of sqlite3, "
                "SQLAlchemy or Django",
            )
        guard(grant, self.file, connection)


def _steps(grant: Guarded, file: Path, mark: str) -> Steps:
    """Yield the statements of the guard, for a connection of any kind."""
    database = _database_name(grant, file, (yield _DATABASES, ()))
    statement = _GUARD.format(database=database, mark=mark)
    rows = yield statement, (grant.name, grant.token, str(grant.grant_id), boot_id())
    if not rows or rows[0][0] <= boottime():
        raise lost(grant)


def _database_name(grant: Guarded, file: Path, databases: Rows) -> str:
    """Return the name under which the connection has opened the file that keeps the lease."""
    for _, name, path in databases:
        if path and Path(os.fsdecode(path)).exists() and file.exists() and file.samefile(os.fsdecode(path)):
            return '"' + os.fsdecode(name).replace('"', '""') + '"'
    raise refused(
        grant,
        f"The connection has not opened {file}, which keeps the lease: keep leases and data in one file, "
        f"or let the connection ATTACH that file",
    )


def _run(steps: Steps, fetch: Fetch) -> None:
    try:
        request = next(steps)
        while True:
            request = steps.send(fetch(*request))
    except StopIteration:
        return


async def _run_async(steps: Steps, fetch: Callable[[str, tuple[Any, ...]], Awaitable[Rows]]) -> None:
    try:
        request = next(steps)
        while True:
            request = steps.send(await fetch(*request))
    except StopIteration:
        return


def _by_sqlite3(grant: Guarded, file: Path, connection: Any) -> None:
    _require_transaction(grant, connection)

    def fetch(statement: str, parameters: tuple[Any, ...]) -> Rows:
        cursor = connection.cursor()
        cursor.row_factory = None  # the user's own factory may return rows of any kind
        return list(cursor.execute(statement, parameters).fetchall())

    _run(_steps(grant, file, "?"), fetch)


def _by_cursor(grant: Guarded, file: Path, cursor: Any) -> None:
    _by_sqlite3(grant, file, cursor.connection)


async def _by_aiosqlite(grant: Guarded, file: Path, connection: Any) -> None:
    _require_transaction(grant, connection)

    async def fetch(statement: str, parameters: tuple[Any, ...]) -> Rows:
        async with connection.cursor() as cursor:
            cursor.row_factory = None
            await cursor.execute(statement, parameters)
            return list(await cursor.fetchall())

    await _run_async(_steps(grant, file, "?"), fetch)


def _by_sqlalchemy(grant: Guarded, file: Path, connection: Any) -> None:
    if connection.dialect.name != "sqlite":
        raise refused(
            grant,
            f"The connection leads to {connection.dialect.name}, but this lease is kept in {file}: pass a connection "
            "to that file",
        )
    _require_transaction(grant, connection.connection.driver_connection)

    def fetch(statement: str, parameters: tuple[Any, ...]) -> Rows:
        return [tuple(row) for row in connection.exec_driver_sql(statement, parameters).fetchall()]

    _run(_steps(grant, file, "?"), fetch)


def _by_session(grant: Guarded, file: Path, session: Any) -> None:
    _by_sqlalchemy(grant, file, session.connection())


async def _by_async_sqlalchemy(grant: Guarded, file: Path, connection: Any) -> None:
    await connection.run_sync(lambda inner: _by_sqlalchemy(grant, file, inner))


async def _by_async_session(grant: Guarded, file: Path, session: Any) -> None:
    await session.run_sync(lambda inner: _by_session(grant, file, inner))


def _by_django(grant: Guarded, file: Path, connection: Any) -> None:
    if connection.vendor != "sqlite":
        raise refused(
            grant,
            f"The database {connection.alias!r} is {connection.vendor}, but this lease is kept in {file}: pass a "
            "connection to that file",
        )
    if not connection.in_atomic_block and connection.get_autocommit():
        raise outside(grant, "guard inside `with transaction.atomic():`")

    def fetch(statement: str, parameters: tuple[Any, ...]) -> Rows:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return list(cursor.fetchall())

    _run(_steps(grant, file, "%s"), fetch)


def _by_alias(grant: Guarded, file: Path, alias: str | None) -> None:
    django = sys.modules.get("django.db")
    if django is None:
        raise refused(grant, "Only Django's connections have aliases, and Django is not in use: pass the connection")
    _by_django(grant, file, django.connections[alias or django.DEFAULT_DB_ALIAS])


def _require_transaction(grant: Guarded, connection: Any) -> None:
    """Raise `GuardRefused` if no transaction is open and the UPDATE would not begin one. By default, Python's sqlite3
    begins a transaction before an UPDATE, and so before the guard."""
    begins_by_itself = connection.isolation_level is not None and getattr(connection, "autocommit", -1) is not True
    if not connection.in_transaction and not begins_by_itself:
        raise outside(grant, _BEGIN)


def _shown(connection: Any) -> str:
    kind = type(connection)
    return f"An object of {kind.__module__}.{kind.__qualname__}"


_SYNC = {
    ("sqlite3", "Connection"): _by_sqlite3,
    ("sqlite3", "Cursor"): _by_cursor,
    ("sqlalchemy", "Connection"): _by_sqlalchemy,
    ("sqlalchemy", "Session"): _by_session,
    ("sqlalchemy", "scoped_session"): _by_session,
    ("django", "BaseDatabaseWrapper"): _by_django,
    ("django", "ConnectionProxy"): _by_django,
    ("builtins", "str"): _by_alias,
    ("builtins", "NoneType"): _by_alias,
}

_ASYNC = {
    ("aiosqlite", "Connection"): _by_aiosqlite,
    ("sqlalchemy", "AsyncConnection"): _by_async_sqlalchemy,
    ("sqlalchemy", "AsyncSession"): _by_async_session,
    ("sqlalchemy", "async_scoped_session"): _by_async_session,
}
