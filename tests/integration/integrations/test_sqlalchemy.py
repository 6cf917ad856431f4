"""Every transaction of a session or an engine carries the guard inside the block."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, TextClause, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

from interlock import AsyncInterlock, Grant, Interlock, errors
from interlock.integrations.sqlalchemy import guarded
from support.lease_engine import take_away
from support.postgres import execute

NOTES = "SELECT note FROM notes ORDER BY note"


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, "CREATE TABLE notes (note text)")
    return interlock_url


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    yield engine
    engine.dispose()


@pytest.fixture(params=["asyncpg", "psycopg"])
async def async_engine(request: pytest.FixtureRequest, url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(make_url(url).set(drivername=f"postgresql+{request.param}"))
    yield engine
    await engine.dispose()


@pytest.fixture
def locks(url: str) -> Iterator[Interlock]:
    with Interlock(url) as locks:
        yield locks


@pytest.fixture
def grant(locks: Interlock) -> Grant:
    return locks.lease("feeds").acquire()


def note(what: str) -> TextClause:
    return text(f"INSERT INTO notes VALUES ('{what}')")


def notes(url: str) -> list[str]:
    return [note for (note,) in execute(url, NOTES)]


def test_every_transaction_of_a_session_is_guarded(engine: Engine, grant: Grant, url: str) -> None:
    with Session(engine) as session:
        with guarded(session, grant):
            for what in "ab":
                with session.begin():
                    session.execute(note(what))
            take_away(url)
            with pytest.raises(errors.LeaseLost), session.begin():
                session.execute(note("late"))
        with session.begin():
            session.execute(note("outside"))
    assert notes(url) == ["a", "b", "outside"]


def test_nested_transactions_are_guarded_by_the_outermost(engine: Engine, grant: Grant, url: str) -> None:
    with Session(engine) as session, guarded(session, grant):
        with session.begin(), session.begin_nested():
            session.execute(note("a"))
        take_away(url)
        with pytest.raises(errors.LeaseLost), session.begin(), session.begin_nested():
            session.execute(note("late"))
    assert notes(url) == ["a"]


def test_a_session_with_an_open_transaction_is_refused(engine: Engine, grant: Grant) -> None:
    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        with pytest.raises(errors.ConfigurationError, match="has an open transaction"), guarded(session, grant):
            pass


def test_other_sessions_are_not_guarded(engine: Engine, grant: Grant, url: str) -> None:
    with Session(engine) as session, Session(engine) as other, guarded(session, grant):
        take_away(url)
        with other.begin():
            other.execute(note("other"))
    assert notes(url) == ["other"]


def test_every_transaction_of_an_engine_is_guarded(engine: Engine, grant: Grant, url: str) -> None:
    with guarded(engine, grant):
        for what in "ab":
            with engine.begin() as connection:
                connection.execute(note(what))
        with Session(engine) as session, session.begin():
            session.execute(note("c"))
        take_away(url)
        with pytest.raises(errors.LeaseLost), engine.begin() as connection:
            connection.execute(note("late"))
        with pytest.raises(errors.LeaseLost), engine.connect() as connection:
            connection.execute(note("later"))
    with engine.begin() as connection:
        connection.execute(note("outside"))
    assert notes(url) == ["a", "b", "c", "outside"]


def test_a_separate_engine_on_the_same_pool_does_not_guard_others(engine: Engine, grant: Grant, url: str) -> None:
    own = engine.execution_options()
    with guarded(own, grant):
        take_away(url)
        with pytest.raises(errors.LeaseLost), own.begin() as connection:
            connection.execute(note("late"))
        with engine.begin() as connection:
            connection.execute(note("other"))
    assert notes(url) == ["other"]


async def test_every_transaction_of_an_async_session_is_guarded(async_engine: AsyncEngine, url: str) -> None:
    async with AsyncInterlock(url) as locks, AsyncSession(async_engine) as session:
        grant = await locks.lease("feeds").acquire()
        with guarded(session, grant):
            async with session.begin():
                await session.execute(note("a"))
            take_away(url)
            with pytest.raises(errors.LeaseLost):
                async with session.begin():
                    await session.execute(note("late"))
    assert notes(url) == ["a"]


async def test_every_transaction_of_an_async_engine_is_guarded(async_engine: AsyncEngine, url: str) -> None:
    async with AsyncInterlock(url) as locks:
        grant = await locks.lease("feeds").acquire()
        with guarded(async_engine, grant):
            async with async_engine.begin() as connection:
                await connection.execute(note("a"))
            take_away(url)
            with pytest.raises(errors.LeaseLost):
                async with async_engine.begin() as connection:
                    await connection.execute(note("late"))
    assert notes(url) == ["a"]


def test_leases_in_a_sqlite_file_guard_transactions_on_it(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    engine = create_engine(f"sqlite:///{file}")
    with Interlock(f"sqlite:///{file}") as locks:
        grant = locks.lease("feeds").acquire()
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE notes (note text)"))
        with Session(engine) as session, guarded(session, grant):
            with session.begin():
                session.execute(note("a"))
            with sqlite3.connect(file) as thief:
                thief.execute("UPDATE interlock_lease SET token = token + 1")
            with pytest.raises(errors.LeaseLost), session.begin():
                session.execute(note("late"))
        with engine.connect() as connection:
            assert connection.execute(text(NOTES)).all() == [("a",)]
    engine.dispose()
    thief.close()


def test_an_object_without_transactions_is_refused(async_engine: AsyncEngine, grant: Grant) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"cannot guard an object of .*async_sessionmaker"):
        guarded(async_sessionmaker(async_engine), grant).__enter__()  # type: ignore[arg-type]
