"""Connections with the users' own settings."""

import uuid
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row

from interlock.coordination.guards import guard, guard_sync
from interlock.errors import GuardRefused, LeaseLost
from interlock.schema import whole_schema
from support.leases import Grant, granted, steal
from support.postgres import execute
from support.sql_leases import Answer


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return granted(interlock_url)


def test_psycopg_in_autocommit_mode_inside_a_transaction(grant: Grant) -> None:
    with psycopg.connect(grant.url, autocommit=True) as connection:
        with connection.transaction():
            guard_sync(grant, connection)
            assert steal(grant) == "locked"
        assert steal(grant) == "granted"


def test_psycopg_with_other_placeholders_and_rows(grant: Grant) -> None:
    for factory in (psycopg.RawCursor, psycopg.ClientCursor):
        with psycopg.connect(grant.url, cursor_factory=factory, row_factory=dict_row) as connection:
            guard_sync(grant, connection)
            guard_sync(grant, connection.cursor())


def test_psycopg_with_a_cursor_of_the_servers(grant: Grant) -> None:
    with psycopg.connect(grant.url) as connection, connection.cursor("rows") as cursor:
        guard_sync(grant, cursor)
        assert steal(grant) == "locked"


def test_psycopg_in_a_pipeline_that_has_begun_a_transaction(grant: Grant) -> None:
    with psycopg.connect(grant.url, autocommit=True) as connection, connection.pipeline(), connection.transaction():
        guard_sync(grant, connection)
        assert steal(grant) == "locked"


def test_psycopg_in_a_pipeline_without_a_transaction(grant: Grant) -> None:
    with psycopg.connect(grant.url, autocommit=True) as connection, connection.pipeline():
        with pytest.raises(GuardRefused, match="autocommit"):
            guard_sync(grant, connection)
        connection.execute("SELECT 1")
        with pytest.raises(GuardRefused, match="autocommit"):
            guard_sync(grant, connection)


def test_psycopg_in_a_pipeline_with_a_stale_grant(grant: Grant) -> None:
    assert steal(grant) == "granted"
    with psycopg.connect(grant.url) as connection, connection.pipeline():
        with pytest.raises(LeaseLost):
            guard_sync(grant, connection)
        connection.rollback()


async def test_psycopg_async_in_a_pipeline(grant: Grant) -> None:
    async with await psycopg.AsyncConnection.connect(grant.url, autocommit=True) as connection, connection.pipeline():
        with pytest.raises(GuardRefused, match="autocommit"):
            await guard(grant, connection)
        async with connection.transaction():
            await guard(grant, connection)
            assert steal(grant) == "locked"


async def test_asyncpg_without_a_cache_of_statements_and_with_codecs_of_its_own(grant: Grant) -> None:
    connection = await asyncpg.connect(grant.url, statement_cache_size=0)
    try:
        await connection.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog")
        async with connection.transaction(isolation="repeatable_read"):
            await guard(grant, connection)
            assert steal(grant) == "locked"
    finally:
        await connection.close()


class OwnConnection(asyncpg.Connection):
    pass


async def test_asyncpg_with_a_class_of_the_users(grant: Grant) -> None:
    connection: Any = await asyncpg.connect(grant.url, connection_class=OwnConnection)
    try:
        async with connection.transaction():
            await guard(grant, connection)
            assert steal(grant) == "locked"
    finally:
        await connection.close()


def test_interlock_in_a_schema_of_another_name(database_url: str) -> None:
    execute(database_url, whole_schema("locks"))
    grant_id = uuid.uuid4()
    call = "SELECT status, token, remaining, retry_after FROM locks.acquire_v1('feeds', %s, 30, 'a test')"
    answer = Answer("feeds", grant_id, *execute(database_url, call, grant_id)[0])
    with psycopg.connect(database_url) as connection:
        guard_sync(Grant(database_url, answer, schema="locks"), connection)
        assert execute(database_url, "SELECT pid FROM locks.guards_v1('feeds')") == [(connection.info.backend_pid,)]
        with pytest.raises(GuardRefused, match="schema 'interlock'"):
            guard_sync(Grant(database_url, answer), connection)
