"""Statements on the rows of orchestrations: on the replica's own connection, or in a transaction of the caller's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from interlock import errors, user_connections
from interlock.durable.server_access import primary_session
from interlock.schema import read_status
from interlock.stores.postgres import Password, Queries, Session, quote_identifier
from interlock.stores.postgres.managed_connection import ManagedConnection
from interlock.stores.postgres.session import Row
from interlock.stores.postgres.url import to_the_primary

_ENGINE_TABLES = "interlock_engine."
_BROKEN = (errors.ConnectionLost, errors.DatabaseUnreachable)
_TIMEOUT = 20.0
_SUPERSEDED = "IL010"


def engine_schema(schema: str) -> str:
    """Returns the name of the schema of the engine's tables, which the engine creates and changes itself."""
    return f"{schema}_engine"


class Statements:
    """The statements of queries.sql, for the schemas of Interlock and of the engine."""

    def __init__(self, schema: str) -> None:
        self._queries = Queries("interlock.durable", "queries.sql", schema)
        self._engine = quote_identifier(engine_schema(schema)) + "."

    def __getitem__(self, name: str) -> str:
        return self._queries[name].replace(_ENGINE_TABLES, self._engine)


async def fetch_value(connection: Any, sql: str, *args: Any) -> Any:
    """Run `sql` in the caller's transaction, and return its single value; None if it returns no row.

    Raises `ConnectionUnfit` if `connection` has no open transaction.
    """
    return await user_connections.run_steps(connection, _value(sql, args), _translate)


async def fetch_rows(connection: Any, sql: str, *args: Any) -> user_connections.Rows:
    """Like `fetch_value`, but returns all rows."""
    return await user_connections.run_steps(connection, _rows(sql, args), _translate)


def fetch_value_sync(connection: Any, sql: str, *args: Any) -> Any:
    return user_connections.run_steps_sync(connection, _value(sql, args), _translate)


def _rows(sql: str, args: tuple[Any, ...]) -> user_connections.Steps[user_connections.Rows]:
    return (yield sql, args)


def _value(sql: str, args: tuple[Any, ...]) -> user_connections.Steps[Any]:
    rows = yield sql, args
    return rows[0][0] if rows else None


def _translate(code: str | None) -> errors.InterlockError | None:
    if code == _SUPERSEDED:
        return errors.AttemptSuperseded(
            "Another replica has taken over this step: roll back, because the changes of this attempt do not count."
        )
    return None


class EngineDatabase:
    """The replica's own connection.

    `connections` counts how often it was opened: more than once after a lost connection.
    """

    def __init__(self, url: str, schema: str, password: Password | None = None) -> None:
        self.schema = schema
        self.connections = 0
        self._url = url
        self._password = password
        self._statements = Statements(schema)
        self._connection = ManagedConnection("orchestrations", self._connect, lambda purpose: None)

    async def check(self) -> None:
        """Raises an error if the database is unreachable or its schema is not current."""
        session = await self._connection.session()
        (await read_status(session, self.schema)).require()

    async def fetch(self, name: str, *args: Any) -> list[Row]:
        async with self.session() as session:
            return await session.fetch(self._statements[name], *args)

    async def value(self, name: str, *args: Any) -> Any:
        rows = await self.fetch(name, *args)
        return rows[0][0] if rows else None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        session = await self._connection.session()
        try:
            yield session
        except _BROKEN:
            self._connection.drop(session)
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Transaction"]:
        async with self.session() as session, session.transaction(longest_pause=_TIMEOUT):
            yield Transaction(session, self._statements)

    async def close(self) -> None:
        await self._connection.shut()

    async def _connect(self, purpose: str) -> Session:
        session = await primary_session(
            to_the_primary(self._url),
            application_name=f"interlock {purpose}",
            statement_timeout=_TIMEOUT,
            password=self._password,
            prepared=True,
        )
        self.connections += 1
        return session


class Transaction:
    def __init__(self, session: Session, statements: Statements) -> None:
        self._session = session
        self._statements = statements

    async def fetch(self, name: str, *args: Any) -> list[Row]:
        return await self._session.fetch(self._statements[name], *args)
