"""The sessions that a guard stands in: none of them keeps it, and none that others use is given it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from interlock.coordination.guards import guarding, guarding_sync
from interlock.errors import GuardRefused
from support.carriers import STANDING, Kind
from support.django_databases import django_databases
from support.leases import Grant, granted
from support.pooler import PoolMode, pooled
from support.postgres import execute
from support.protection_scenarios import protected
from support.protocol import rewrite
from support.waiting import eventually

STANDING_THERE = "SELECT coalesce(current_setting('interlock_guard.standing', true), '')"
WAITS = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ %s"
)


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


@pytest.fixture
def engine(interlock_url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(interlock_url.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


def standing(connection: psycopg.Connection) -> str:
    row = connection.execute(STANDING_THERE).fetchone()
    connection.rollback()
    assert row
    return str(row[0])


@contextmanager
def nobody_reads_leases(url: str) -> Iterator[None]:
    with psycopg.connect(url) as connection:
        connection.execute("LOCK interlock.lease")
        yield
        connection.rollback()


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_a_poolers_session_is_refused_before_anything_is_set_in_it(grant: Grant, mode: PoolMode) -> None:
    with pooled(grant.url, mode, pool_size=1) as url:
        with psycopg.connect(url, prepare_threshold=None) as connection:
            with pytest.raises(GuardRefused, match=r"through a pooler.*connect to the server itself"):
                guarding_sync((grant,), connection).__enter__()
            assert standing(connection) == ""
        connection_of_asyncpg = await asyncpg.connect(url, statement_cache_size=0)
        with pytest.raises(GuardRefused, match="through a pooler"):
            await guarding((grant,), connection_of_asyncpg).__aenter__()
        assert await connection_of_asyncpg.fetchval(STANDING_THERE) == ""
        await connection_of_asyncpg.close()


@pytest.mark.parametrize("kind", [kind for name, kind in STANDING.items() if "SQLAlchemy" in name or "Django" in name])
async def test_so_is_one_under_sqlalchemy_or_django(grant: Grant, kind: Kind) -> None:
    with pooled(grant.url, "transaction", pool_size=1) as url:
        async with kind(url) as carrier:
            with pytest.raises(GuardRefused, match="through a pooler"):
                async with carrier.guarding(grant):
                    raise AssertionError
        assert execute(url, STANDING_THERE) == [("",)]


async def test_what_asyncpgs_pool_takes_back_has_no_guard(grant: Grant) -> None:
    async with asyncpg.create_pool(grant.url, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection, guarding((grant,), connection):
            await connection.execute("INSERT INTO notes VALUES ('a')")
        assert await pool.fetchval(STANDING_THERE) == ""


async def test_a_connection_that_is_given_back_in_the_block_is_ended_with_its_guard(grant: Grant) -> None:
    async with asyncpg.create_pool(grant.url, min_size=1, max_size=1) as pool:
        connection = await pool.acquire()
        block = guarding((grant,), connection)
        await block.__aenter__()
        await pool.release(connection)
        with pytest.raises(GuardRefused, match="give it back after the block"):
            await block.__aexit__(None, None, None)
        assert await pool.fetchval(STANDING_THERE) == ""


def test_so_is_one_that_sqlalchemys_pool_would_lend_to_others(grant: Grant, engine: sqlalchemy.Engine) -> None:
    connection = engine.connect()
    block = guarding_sync((grant,), connection)
    block.__enter__()
    session = connection.connection.driver_connection
    connection.close()
    with pytest.raises(GuardRefused, match="give it back after the block"):
        block.__exit__(None, None, None)
    assert isinstance(session, psycopg.Connection)
    assert session.closed


def test_sqlalchemys_pool_lends_a_connection_without_guard_after_the_block(
    grant: Grant, engine: sqlalchemy.Engine
) -> None:
    with engine.connect() as connection, guarding_sync((grant,), connection):
        pid = connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
        connection.commit()
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()")) == pid
        assert connection.scalar(sqlalchemy.text(STANDING_THERE)) == ""


@pytest.mark.parametrize("rounds", [1, 2])
def test_sqlalchemys_pool_lends_to_nobody_what_was_given_back_in_the_block(
    grant: Grant, engine: sqlalchemy.Engine, rounds: int
) -> None:
    for _ in range(rounds):
        connection = engine.connect()
        block = guarding_sync((grant,), connection)
        block.__enter__()
        pid = connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
        connection.close()
        with engine.connect() as others:
            assert others.scalar(sqlalchemy.text("SELECT pg_backend_pid()")) != pid
            assert others.scalar(sqlalchemy.text(STANDING_THERE)) == ""
            with pytest.raises(GuardRefused, match="given back to its pool"):
                block.__exit__(None, None, None)
            others.execute(sqlalchemy.text("SELECT 1"))


def test_sqlalchemys_pool_replaces_what_was_given_back_although_nobody_has_borrowed_it_since(
    grant: Grant, engine: sqlalchemy.Engine
) -> None:
    connection = engine.connect()
    block = guarding_sync((grant,), connection)
    block.__enter__()
    pid = connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
    connection.close()
    with pytest.raises(GuardRefused, match="given back to its pool"):
        block.__exit__(None, None, None)
    with engine.connect() as next_:
        assert next_.scalar(sqlalchemy.text("SELECT pg_backend_pid()")) != pid
        assert next_.scalar(sqlalchemy.text(STANDING_THERE)) == ""


@pytest.mark.parametrize("last", [0, 1], ids=["the first ends last", "the second ends last"])
def test_sqlalchemys_pool_lends_nothing_on_as_long_as_one_of_two_guards_stands(
    grant: Grant, engine: sqlalchemy.Engine, last: int
) -> None:
    execute(grant.url, "CREATE TABLE more_notes (note text); SELECT interlock.protect_v1('more_notes', 'other')")
    other = granted(grant.url, "other")
    with engine.connect() as connection:
        blocks = [guarding_sync((each,), connection) for each in (grant, other)]
        for block in blocks:
            block.__enter__()
        blocks[1 - last].__exit__(None, None, None)
        pid = connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
    with engine.connect() as others:
        assert others.scalar(sqlalchemy.text("SELECT pg_backend_pid()")) != pid
    with pytest.raises(GuardRefused, match="given back to its pool"):
        blocks[last].__exit__(None, None, None)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_so_does_an_async_one(grant: Grant, driver: str) -> None:
    engine = create_async_engine(grant.url.replace("postgresql://", f"postgresql+{driver}://"))
    try:
        async with engine.connect() as connection, guarding((grant,), connection):
            pid = await connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
            await connection.commit()
        connection = await engine.connect()
        block = guarding((grant,), connection)
        await block.__aenter__()
        assert await connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()")) == pid
        await connection.close()
        async with engine.connect() as others:
            assert await others.scalar(sqlalchemy.text("SELECT pg_backend_pid()")) != pid
            assert await others.scalar(sqlalchemy.text(STANDING_THERE)) == ""
            with pytest.raises(GuardRefused, match="given back to its pool"):
                await block.__aexit__(None, None, None)
            await others.execute(sqlalchemy.text("SELECT 1"))
    finally:
        await engine.dispose()


def test_a_session_of_sqlalchemys_is_guarded_where_it_is_bound_to_the_connection(
    grant: Grant, engine: sqlalchemy.Engine
) -> None:
    with engine.connect() as connection, guarding_sync((grant,), connection):
        for _ in range(2):
            with Session(connection) as session, session.begin():
                session.execute(sqlalchemy.text("INSERT INTO notes VALUES ('a')"))
    assert execute(grant.url, "SELECT note FROM notes") == [("a",), ("a",)]


def test_a_connection_that_django_opens_anew_has_no_guard(grant: Grant) -> None:
    with django_databases(grant.url) as django:
        with guarding_sync((grant,)):
            django.connection.close()
            with (
                pytest.raises(django.Error, match="may only be written under the lease"),
                django.connection.cursor() as c,
            ):
                c.execute("INSERT INTO notes VALUES ('a')")
        with guarding_sync((grant,)), django.connection.cursor() as cursor:
            cursor.execute("INSERT INTO notes VALUES ('b')")
    assert execute(grant.url, "SELECT note FROM notes") == [("b",)]


def test_django_without_autocommit_is_committed_for_the_guard_alone(grant: Grant) -> None:
    with django_databases(grant.url) as django:
        django.connection.ensure_connection()
        django.connection.set_autocommit(False)
        with guarding_sync((grant,)):
            with django.connection.cursor() as cursor:
                cursor.execute("INSERT INTO notes VALUES ('a')")
            django.connection.commit()
        block = guarding_sync((grant,))
        block.__enter__()
        with django.connection.cursor() as cursor:
            cursor.execute("INSERT INTO notes VALUES ('b')")
        with pytest.raises(GuardRefused, match="commit inside the block"):
            block.__exit__(None, None, None)
        with django.connection.cursor() as cursor:
            cursor.execute(STANDING_THERE)
            assert cursor.fetchall() == [("",)]
        django.connection.rollback()
    assert execute(grant.url, "SELECT note FROM notes") == [("a",)]


def test_psycopg_in_a_pipeline(grant: Grant) -> None:
    with psycopg.connect(grant.url, autocommit=True) as connection, connection.pipeline():
        with guarding_sync((grant,), connection):
            for note in ("a", "b"):
                with connection.transaction():
                    connection.execute("INSERT INTO notes VALUES (%s)", [note])
        with connection.transaction(), pytest.raises(GuardRefused, match="A transaction is open"):
            guarding_sync((grant,), connection).__enter__()
        assert standing(connection) == ""
    assert execute(grant.url, "SELECT note FROM notes") == [("a",), ("b",)]


def test_a_session_is_ended_where_the_guard_cannot_be_taken_away(grant: Grant) -> None:
    connection = psycopg.connect(grant.url)
    block = guarding_sync((grant,), connection)
    block.__enter__()
    execute(grant.url, "ALTER FUNCTION interlock.stand_down_v1 RENAME TO gone_v1")
    with pytest.raises(psycopg.errors.UndefinedFunction):
        block.__exit__(None, None, None)
    assert connection.closed


def test_or_where_the_transaction_cannot_be_ended(grant: Grant) -> None:
    with psycopg.connect(grant.url) as connection:
        block = guarding_sync((grant,), connection)
        block.__enter__()
        with pytest.raises(psycopg.ProgrammingError, match="Explicit rollback"), connection.transaction():
            block.__exit__(None, None, None)
        assert connection.closed


async def test_or_where_nobody_knows_whether_it_was_set(grant: Grant) -> None:
    connection = await psycopg.AsyncConnection.connect(grant.url)
    with nobody_reads_leases(grant.url):
        entering = asyncio.ensure_future(guarding((grant,), connection).__aenter__())
        await asyncio.to_thread(eventually, lambda: execute(grant.url, WAITS, "stand_v1") == [(1,)])
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
    assert connection.closed


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_or_where_its_task_was_cancelled_while_it_was_taken_away(grant: Grant, driver: str) -> None:
    rewrite(grant.url, "stand_down_v1", "BEGIN", "BEGIN LOCK interlock.lease;")
    kind = STANDING["asyncpg" if driver == "asyncpg" else "psycopg async"]
    async with kind(grant.url) as carrier:
        block = guarding((grant,), carrier.connection)
        await block.__aenter__()
        with nobody_reads_leases(grant.url):
            leaving = asyncio.ensure_future(block.__aexit__(None, None, None))
            await asyncio.to_thread(eventually, lambda: execute(grant.url, WAITS, "stand_down_v1") == [(1,)])
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
        assert carrier.connection.is_closed() if driver == "asyncpg" else carrier.connection.closed


def test_a_driver_that_does_not_tell_its_process_is_refused(grant: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.coordination.guards.standing.announced_pid", lambda driver: None)
    with psycopg.connect(grant.url) as connection:
        with pytest.raises(GuardRefused, match="use psycopg or asyncpg"):
            guarding_sync((grant,), connection).__enter__()
        assert standing(connection) == ""
