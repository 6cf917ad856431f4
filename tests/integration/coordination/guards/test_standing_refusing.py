"""Connections that no guard can stand on, or not like this; and grants that have none that stands."""

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.pool import NullPool

from interlock import AsyncInterlock, Interlock
from interlock.coordination.guards import guarding, guarding_sync
from interlock.errors import GuardRefused, LeaseLost, PermissionMissing
from interlock.schema import grant_sql, whole_schema
from support.carriers import STANDING, Kind
from support.leases import Grant
from support.postgres import execute
from support.protection_scenarios import protected

each = pytest.mark.parametrize("kind", STANDING.values(), ids=STANDING)


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


@each
async def test_a_connection_to_a_database_without_interlock(kind: Kind, grant: Grant, database_url: str) -> None:
    async with kind(database_url) as carrier:
        with pytest.raises(GuardRefused, match="only in the database that keeps the lease"):
            async with carrier.guarding(grant):
                raise AssertionError
        async with carrier.transaction():
            await carrier.execute("SELECT 1")


def test_a_connection_to_a_database_with_an_interlock_of_its_own(grant: Grant, database_url: str) -> None:
    execute(database_url, whole_schema("interlock"))
    with psycopg.connect(database_url) as connection, pytest.raises(LeaseLost, match="another database"):
        guarding_sync((grant,), connection).__enter__()


@pytest.fixture
def stranger_url(interlock_url: str) -> str:
    parts = urlsplit(interlock_url)
    role = f"writer_{parts.path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    return urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))


@each
async def test_a_role_that_was_granted_nothing(kind: Kind, grant: Grant, stranger_url: str) -> None:
    async with kind(stranger_url) as carrier:
        with pytest.raises(PermissionMissing, match="schema grant ROLE --for leases"):
            async with carrier.guarding(grant):
                raise AssertionError


def test_a_role_that_may_use_leases_and_write_the_table_needs_no_more(grant: Grant, stranger_url: str) -> None:
    role = urlsplit(stranger_url).username
    assert role
    execute(grant.url, grant_sql(role, "interlock", ["leases"]) + f"GRANT INSERT ON notes TO {role}")
    with psycopg.connect(stranger_url, autocommit=True) as connection, guarding_sync((grant,), connection):
        connection.execute("INSERT INTO notes VALUES ('a')")


@each
async def test_a_sync_connection_where_it_would_block_and_an_async_one_where_nobody_awaits(
    kind: Kind, grant: Grant
) -> None:
    async with kind(grant.url) as carrier:
        if carrier.is_async:
            with pytest.raises(GuardRefused, match="needs an event loop"):
                guarding_sync((grant,), carrier.connection).__enter__()
        else:
            with pytest.raises(GuardRefused, match=r"would block the event loop|Pass it the async connection"):
                await guarding((grant,), carrier.connection).__aenter__()


@pytest.mark.parametrize("thing", [object(), sqlalchemy.create_engine("sqlite://"), asyncpg])
async def test_what_is_no_connection(grant: Grant, thing: object) -> None:
    with pytest.raises(GuardRefused, match="no connection that Interlock knows"):
        guarding_sync((grant,), thing).__enter__()
    with pytest.raises(GuardRefused, match="no connection that Interlock knows"):
        await guarding((grant,), thing).__aenter__()


def test_another_kind_of_database(grant: Grant) -> None:
    lite = sqlalchemy.create_engine("sqlite://", poolclass=NullPool).connect()
    with lite, pytest.raises(GuardRefused, match="leads to sqlite"):
        guarding_sync((grant,), lite).__enter__()


def test_a_connection_that_is_closed_says_so_itself(grant: Grant) -> None:
    connection = psycopg.connect(grant.url)
    connection.close()
    with pytest.raises(psycopg.OperationalError, match="closed"):
        guarding_sync((grant,), connection).__enter__()


async def test_a_lease_in_a_sqlite_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'leases.db'}"
    async with AsyncInterlock(url) as locks, locks.lease("feeds") as grant:
        with pytest.raises(GuardRefused, match="in each transaction"):
            grant.guarding(object())


def test_grants_of_both_kinds_have_it(interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE notes (note text); SELECT interlock.protect_v1('notes', 'feeds')")
    with Interlock(interlock_url) as locks, psycopg.connect(interlock_url) as connection:
        with locks.lease("feeds") as grant, grant.guarding(connection):
            connection.execute("INSERT INTO notes VALUES ('a')")
            connection.commit()
        connection.execute("INSERT INTO notes VALUES ('b')")
        with pytest.raises(psycopg.Error, match="may only be written"):
            connection.commit()


async def test_and_async_ones(interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE notes (note text); SELECT interlock.protect_v1('notes', 'feeds')")
    connection = await asyncpg.connect(interlock_url)
    async with AsyncInterlock(interlock_url) as locks:
        async with locks.lease("feeds") as grant, grant.guarding(connection):
            await connection.execute("INSERT INTO notes VALUES ('a')")
        with pytest.raises(asyncpg.PostgresError, match="may only be written"):
            await connection.execute("INSERT INTO notes VALUES ('b')")
    await connection.close()
