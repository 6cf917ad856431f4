"""Users' connections of every kind that can carry a guard, with one interface, so that one set of tests covers all."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from interlock.coordination.guards import Guarded, guard, guard_sync
from support.django_databases import django_databases


@dataclass
class UserConnection:
    """`connection` is the object for the guard. The other fields begin, nest and write as users of that kind do."""

    connection: Any
    begin: Callable[[], Any]
    nest: Callable[[], Any]
    run: Callable[[str], Any]
    is_async: bool = False

    async def guard(self, grant: Guarded) -> None:
        if self.is_async:
            await guard(grant, self.connection)
        else:
            guard_sync(grant, self.connection)

    async def execute(self, statement: str) -> None:
        if inspect.isawaitable(running := self.run(statement)):
            await running

    async def write(self, note: str) -> None:
        await self.execute(f"INSERT INTO notes VALUES ('{note}')")

    async def write_guarded(self, note: str, grant: Guarded) -> None:
        async with self.transaction():
            await self.write(note)
            await self.guard(grant)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return entered(self.begin)

    def nested(self) -> AbstractAsyncContextManager[None]:
        return entered(self.nest)


@asynccontextmanager
async def entered(manager: Callable[[], Any]) -> AsyncIterator[None]:
    opened = manager()
    if hasattr(opened, "__aenter__"):
        async with opened:
            yield
    else:
        with opened:
            yield


Kind = Callable[..., AbstractAsyncContextManager[UserConnection]]


@asynccontextmanager
async def psycopg_connection(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    with psycopg.connect(url, autocommit=autocommit) as connection:
        yield UserConnection(connection, connection.transaction, connection.transaction, _plain(connection.execute))


@asynccontextmanager
async def psycopg_cursor(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    with psycopg.connect(url, autocommit=autocommit) as connection, connection.cursor() as cursor:
        yield UserConnection(cursor, connection.transaction, connection.transaction, _plain(cursor.execute))


@asynccontextmanager
async def psycopg_async_connection(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=autocommit) as connection:
        yield UserConnection(
            connection, connection.transaction, connection.transaction, _plain(connection.execute), True
        )


@asynccontextmanager
async def psycopg_async_cursor(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=autocommit) as connection,
        connection.cursor() as c,
    ):
        yield UserConnection(c, connection.transaction, connection.transaction, _plain(c.execute), True)


@asynccontextmanager
async def psycopg_pooled(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    kwargs = {"autocommit": autocommit}
    with ConnectionPool(url, min_size=1, max_size=1, open=True, kwargs=kwargs) as pool, pool.connection() as c:
        yield UserConnection(c, c.transaction, c.transaction, _plain(c.execute))


@asynccontextmanager
async def psycopg_async_pooled(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    kwargs = {"autocommit": autocommit}
    async with AsyncConnectionPool(url, min_size=1, max_size=1, open=False, kwargs=kwargs) as p, p.connection() as c:
        yield UserConnection(c, c.transaction, c.transaction, _plain(c.execute), True)


@asynccontextmanager
async def asyncpg_connection(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    connection = await asyncpg.connect(url)
    try:
        yield UserConnection(connection, connection.transaction, connection.transaction, connection.execute, True)
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as c:
        yield UserConnection(c, c.transaction, c.transaction, c.execute, True)


@asynccontextmanager
async def sqlalchemy_connection(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    with _engine(url, autocommit).connect() as connection:
        yield _sqlalchemy(connection, connection.begin, is_async=False)


@asynccontextmanager
async def sqlalchemy_session(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    with Session(_engine(url, autocommit)) as session:
        yield _sqlalchemy(session, session.begin, is_async=False)


@asynccontextmanager
async def sqlalchemy_scoped_session(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    sessions = scoped_session(sessionmaker(_engine(url, autocommit)))
    try:
        yield _sqlalchemy(sessions, sessions.begin, is_async=False)
    finally:
        sessions.remove()


@asynccontextmanager
async def sqlalchemy_async_connection(
    driver: str, url: str, *, autocommit: bool = False
) -> AsyncIterator[UserConnection]:
    async with create_async_engine(_address(url, driver), **_options(autocommit)).connect() as connection:
        yield _sqlalchemy(connection, connection.begin, is_async=True)


@asynccontextmanager
async def sqlalchemy_async_session(driver: str, url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    async with AsyncSession(create_async_engine(_address(url, driver), **_options(autocommit))) as session:
        yield _sqlalchemy(session, session.begin, is_async=True)


@asynccontextmanager
async def django_wrapper(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    with django_databases(url) as django:
        yield _django(django, django.connections["other"], "other")


@asynccontextmanager
async def django_proxy(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    with django_databases(url) as django:
        yield _django(django, django.connection, "default")


@asynccontextmanager
async def django_pooled(url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    with django_databases(url, pool={"min_size": 1, "max_size": 1}) as django:
        yield _django(django, django.connection, "default")


@asynccontextmanager
async def django_alias(alias: str | None, url: str, *, autocommit: bool = False) -> AsyncIterator[UserConnection]:
    with django_databases(url) as django:
        yield _django(django, alias, alias or "default")


KINDS: dict[str, Kind] = {
    "psycopg": psycopg_connection,
    "psycopg async": psycopg_async_connection,
    "asyncpg": asyncpg_connection,
    "SQLAlchemy": sqlalchemy_connection,
    "SQLAlchemy's session": sqlalchemy_session,
    "SQLAlchemy async": partial(sqlalchemy_async_connection, "asyncpg"),
    "SQLAlchemy's async session": partial(sqlalchemy_async_session, "asyncpg"),
    "Django": django_wrapper,
}

VARIANTS: dict[str, Kind] = {
    "psycopg's cursor": psycopg_cursor,
    "psycopg's async cursor": psycopg_async_cursor,
    "psycopg's pool": psycopg_pooled,
    "psycopg's async pool": psycopg_async_pooled,
    "asyncpg's pool": asyncpg_pooled,
    "SQLAlchemy's scoped session": sqlalchemy_scoped_session,
    "SQLAlchemy async with psycopg": partial(sqlalchemy_async_connection, "psycopg_async"),
    "SQLAlchemy's async session with psycopg": partial(sqlalchemy_async_session, "psycopg_async"),
    "Django's proxy": django_proxy,
    "Django's pool": django_pooled,
    "Django's alias": partial(django_alias, "other"),
    "Django's default": partial(django_alias, None),
}
"""Other objects that lead to a connection of a kind above, and then behave like it."""


def _plain(execute: Callable[..., Any]) -> Callable[[str], Any]:
    """psycopg's types accept only literal statements."""
    return execute


def _engine(url: str, autocommit: bool) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(_address(url, "psycopg"), **_options(autocommit))


def _address(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


def _options(autocommit: bool) -> dict[str, Any]:
    return {"poolclass": NullPool} | ({"isolation_level": "AUTOCOMMIT"} if autocommit else {})


def _sqlalchemy(connection: Any, begin: Callable[[], Any], *, is_async: bool) -> UserConnection:
    return UserConnection(
        connection, begin, connection.begin_nested, lambda line: connection.execute(sqlalchemy.text(line)), is_async
    )


def _django(django: Any, connection: Any, alias: str) -> UserConnection:
    def run(statement: str) -> None:
        with django.connections[alias].cursor() as cursor:
            cursor.execute(statement)

    atomic = partial(django.transaction.atomic, using=alias)
    return UserConnection(connection, atomic, atomic, run)
