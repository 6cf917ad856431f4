"""The replica's own connection, on which rows of orchestrations are read and written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from interlock import errors
from interlock.durable.server_access import primary_session
from interlock.schema import read_status
from interlock.stores.postgres import Password, Queries, Session, quote_identifier
from interlock.stores.postgres.managed_connection import ManagedConnection
from interlock.stores.postgres.session import Row
from interlock.stores.postgres.url import to_the_primary

_ENGINE_TABLES = "interlock_engine."
_BROKEN = (errors.ConnectionLost, errors.DatabaseUnreachable)
_TIMEOUT = 20.0


def engine_schema(schema: str) -> str:
    """The engine keeps its tables in a schema of its own, which it makes and changes itself."""
    return f"{schema}_engine"


class Statements:
    """The statements of queries.sql, for Interlock's schema and the engine's."""

    def __init__(self, schema: str) -> None:
        self._queries = Queries("interlock.durable", "queries.sql", schema)
        self._engine = quote_identifier(engine_schema(schema)) + "."

    def __getitem__(self, name: str) -> str:
        return self._queries[name].replace(_ENGINE_TABLES, self._engine)


class EngineDatabase:
    """`connections` counts how often one was opened: more than once, if the first was lost."""

    def __init__(self, url: str, schema: str, password: Password | None = None) -> None:
        self.schema = schema
        self.connections = 0
        self._url = url
        self._password = password
        self._statements = Statements(schema)
        self._line = ManagedConnection("orchestrations", self._connect, lambda purpose: None)

    async def look(self) -> None:
        """Raise what is wrong with it."""
        session = await self._line.session()
        (await read_status(session, self.schema)).require()

    async def fetch(self, name: str, *args: Any) -> list[Row]:
        async with self.session() as session:
            return await session.fetch(self._statements[name], *args)

    async def value(self, name: str, *args: Any) -> Any:
        rows = await self.fetch(name, *args)
        return rows[0][0] if rows else None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        session = await self._line.session()
        try:
            yield session
        except _BROKEN:
            self._line.drop(session)
            raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Transaction"]:
        async with self.session() as session, session.transaction(longest_pause=_TIMEOUT):
            yield Transaction(session, self._statements)

    async def close(self) -> None:
        await self._line.shut()

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
