"""Guards in transactions on the file with the leases, on every kind of connection."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from interlock import AsyncInterlock, Grant, Interlock
from interlock.errors import GuardRefused, LeaseLost
from support.django_databases import django_databases

INSERT = "INSERT INTO written VALUES (1)"


@pytest.fixture(autouse=True)
def _written(url: str, mine: sqlite3.Connection) -> None:
    with Interlock(url):
        mine.execute("CREATE TABLE written (token INTEGER)")


@pytest.fixture
def grant(sync_locks: Interlock) -> Iterator[Grant]:
    grant = sync_locks.lease("feeds").acquire()
    yield grant
    grant.release()


Transaction = Callable[[Path], Any]


@contextmanager
def by_sqlite3(file: Path, **options: Any) -> Iterator[tuple[Any, Callable[[], object]]]:
    with closing(sqlite3.connect(file, **options)) as connection, connection:
        if options.get("isolation_level", "") is None:
            connection.execute("BEGIN")
        yield connection, lambda: connection.execute(INSERT)


@contextmanager
def by_sqlite3_with_rows(file: Path) -> Iterator[tuple[Any, Callable[[], object]]]:
    """Rows and text of the user's own kinds."""
    with by_sqlite3(file, isolation_level="IMMEDIATE") as (connection, write):
        connection.row_factory = lambda cursor, row: {"row": row}
        connection.text_factory = bytes
        yield connection, write


@contextmanager
def by_explicit_begin(file: Path) -> Iterator[tuple[Any, Callable[[], object]]]:
    with by_sqlite3(file, isolation_level=None) as both:
        yield both


@contextmanager
def by_cursor(file: Path) -> Iterator[tuple[Any, Callable[[], object]]]:
    with by_sqlite3(file) as (connection, write):
        yield connection.cursor(), write


@contextmanager
def by_attached(file: Path) -> Iterator[tuple[Any, Callable[[], object]]]:
    """The user's data are in another file."""
    with closing(sqlite3.connect(file.with_name("other.db"))) as connection:
        connection.execute("ATTACH ? AS 'the ''leases'", (str(file),))
        with connection:
            yield connection, lambda: connection.execute('INSERT INTO "the \'leases".written VALUES (1)')


@contextmanager
def by_sqlalchemy(file: Path) -> Iterator[tuple[Any, Callable[[], object]]]:
    with create_engine(f"sqlite:///{file}", poolclass=NullPool).begin() as connection:
        yield connection, lambda: connection.execute(text(INSERT))


@contextmanager
def by_session(file: Path) -> Iterator[tuple[Any, Callable[[], object]]]:
    with Session(create_engine(f"sqlite:///{file}", poolclass=NullPool)) as session, session.begin():
        yield session, lambda: session.execute(text(INSERT))


@contextmanager
def by_django(file: Path) -> Iterator[tuple[Any, Callable[[], object]]]:
    with django_databases(f"sqlite:///{file}") as django, django.transaction.atomic():
        yield django.connection, lambda: django.connection.cursor().execute(INSERT)


@contextmanager
def by_alias(file: Path) -> Iterator[tuple[Any, Callable[[], object]]]:
    with django_databases(f"sqlite:///{file}") as django, django.transaction.atomic("other"):
        yield "other", lambda: django.connections["other"].cursor().execute(INSERT)


SYNC = [
    by_sqlite3,
    by_sqlite3_with_rows,
    by_explicit_begin,
    by_cursor,
    by_attached,
    by_sqlalchemy,
    by_session,
    by_django,
    by_alias,
]


@pytest.mark.exhaustive(beyond=3)
@pytest.mark.parametrize("transaction", SYNC, ids=lambda each: each.__name__)
def test_a_guarded_write_is_committed(
    file: Path, grant: Grant, mine: sqlite3.Connection, transaction: Transaction
) -> None:
    with transaction(file) as (connection, write):
        grant.guard(connection)
        write()
    assert mine.execute("SELECT count(*) FROM written").fetchone() == (1,)


@pytest.mark.exhaustive(beyond=3)
@pytest.mark.parametrize("transaction", SYNC, ids=lambda each: each.__name__)
def test_a_guarded_transaction_has_the_file_alone_to_its_end(
    file: Path, grant: Grant, mine: sqlite3.Connection, transaction: Transaction
) -> None:
    with transaction(file) as (connection, _):
        grant.guard(connection)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            mine.execute("BEGIN IMMEDIATE")
    mine.execute("BEGIN IMMEDIATE")


@pytest.mark.exhaustive(beyond=3)
@pytest.mark.parametrize("transaction", SYNC, ids=lambda each: each.__name__)
def test_a_stale_guard_is_refused_and_nothing_is_written(
    file: Path, grant: Grant, mine: sqlite3.Connection, transaction: Transaction
) -> None:
    """The database knows it first: the holder still trusts its lease."""
    mine.execute("UPDATE interlock_lease SET token = token + 1")

    def write() -> None:
        with transaction(file) as (connection, write):
            write()
            grant.guard(connection)

    with pytest.raises(LeaseLost):
        write()
    assert mine.execute("SELECT count(*) FROM written").fetchone() == (0,)
    mine.execute("UPDATE interlock_lease SET token = token - 1")


@asynccontextmanager
async def by_aiosqlite(file: Path) -> AsyncIterator[tuple[Any, Any]]:
    async with aiosqlite.connect(file) as connection:
        connection.row_factory = aiosqlite.Row
        yield connection, lambda: connection.execute(INSERT)
        await connection.commit()


@asynccontextmanager
async def by_async_sqlalchemy(file: Path) -> AsyncIterator[tuple[Any, Any]]:
    async with create_async_engine(f"sqlite+aiosqlite:///{file}", poolclass=NullPool).begin() as connection:
        yield connection, lambda: connection.execute(text(INSERT))


@asynccontextmanager
async def by_async_session(file: Path) -> AsyncIterator[tuple[Any, Any]]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}", poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        yield session, lambda: session.execute(text(INSERT))


ASYNC = [by_aiosqlite, by_async_sqlalchemy, by_async_session]


@pytest.mark.parametrize("transaction", ASYNC, ids=lambda each: each.__name__)
async def test_async_connections_carry_it_too(
    file: Path, locks: AsyncInterlock, mine: sqlite3.Connection, transaction: Transaction
) -> None:
    async with locks.lease("feeds") as grant, transaction(file) as (connection, write):
        await grant.guard(connection)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            mine.execute("BEGIN IMMEDIATE")
        await write()
    assert mine.execute("SELECT count(*) FROM written").fetchone() == (1,)


def test_a_reader_that_is_behind_cannot_become_the_writer(file: Path, grant: Grant, mine: sqlite3.Connection) -> None:
    """The rows that it has read may have changed; SQLite itself refuses it, and a retry reads the current ones."""
    mine.execute("BEGIN")
    mine.execute("SELECT * FROM written").fetchall()
    with by_sqlite3(file) as (_, write):
        write()
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        grant.guard(mine)
    mine.execute("ROLLBACK")


def test_a_rollback_to_a_savepoint_does_not_undo_a_guard(file: Path, grant: Grant, mine: sqlite3.Connection) -> None:
    with by_explicit_begin(file) as (connection, _):
        connection.execute("SAVEPOINT nested")
        grant.guard(connection)
        connection.execute("ROLLBACK TO nested")
        connection.execute("RELEASE nested")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            mine.execute("BEGIN IMMEDIATE")


def test_connections_that_cannot_carry_it_are_refused(file: Path, grant: Grant, tmp_path: Path) -> None:
    with ExitStack() as stack:
        autocommit = sqlite3.connect(file, isolation_level=None)
        stack.callback(autocommit.close)
        with pytest.raises(GuardRefused, match="in no transaction: guard inside a transaction, after BEGIN IMMEDIATE"):
            grant.guard(autocommit)
        elsewhere = sqlite3.connect(tmp_path / "elsewhere.db")
        stack.callback(elsewhere.close)
        with pytest.raises(GuardRefused, match=r"has not opened .*app\.db, which keeps the lease"):
            grant.guard(elsewhere)
        memory = sqlite3.connect(":memory:")
        stack.callback(memory.close)
        with pytest.raises(GuardRefused, match="has not opened"):
            grant.guard(memory)
        with pytest.raises(GuardRefused, match="not a connection to SQLite that a guard supports"):
            grant.guard(object())


def test_django_outside_a_transaction_is_refused(grant: Grant, url: str) -> None:
    with django_databases(url) as django, pytest.raises(GuardRefused, match=r"transaction\.atomic"):
        grant.guard(django.connection)


async def test_a_sync_connection_on_an_event_loop_is_refused(locks: AsyncInterlock, mine: sqlite3.Connection) -> None:
    async with locks.lease("feeds") as grant:
        with pytest.raises(GuardRefused, match="use the sync Interlock in its thread"):
            await grant.guard(mine)


async def test_a_late_holder_is_refused_even_if_the_lease_is_free(
    locks: AsyncInterlock, mine: sqlite3.Connection
) -> None:
    grant = await locks.lease("feeds").acquire()
    mine.execute("UPDATE interlock_lease SET expires_at = 1")
    async with aiosqlite.connect(mine.execute("PRAGMA database_list").fetchone()[2]) as connection:
        with pytest.raises(LeaseLost):
            await grant.guard(connection)
        await connection.rollback()
    await asyncio.sleep(0)
    await grant.release()
