"""SQLAlchemy's connections and sessions, with any driver for PostgreSQL.

Unless they are in autocommit mode, they begin a transaction with their first statement, which may be Interlock's.
Statements are passed to the driver unchanged: SQLAlchemy would guess the types of the parameters, some of them wrongly.
"""

from collections.abc import Callable
from typing import Any

from interlock.user_connections.adapter import Parameters, Rows, by_name, by_place, named, outside, placed


class SqlAlchemyConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def unfit_reason(self) -> str | None:
        if reason := self._other_database():
            return reason
        if self._commits_by_itself():
            return outside("remove the execution option isolation_level='AUTOCOMMIT'")
        return None

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        return [tuple(row) for row in self._execute(statement, parameters).fetchall()]

    def _commits_by_itself(self) -> bool:
        return bool(self._connection.connection.dbapi_connection.autocommit)

    def _other_database(self) -> str | None:
        if self._connection.dialect.name == "postgresql":
            return None
        return f"The connection is to {self._connection.dialect.name}, and Interlock's tables are in PostgreSQL"

    def _execute(self, statement: str, parameters: Parameters) -> Any:
        match self._connection.dialect.paramstyle:
            case "numeric_dollar":
                return self._connection.exec_driver_sql(statement, tuple(parameters))
            case "pyformat":
                return self._connection.exec_driver_sql(by_name(statement), named(parameters))
            case _:
                return self._connection.exec_driver_sql(by_place(statement), tuple(placed(statement, parameters)))


class SqlAlchemySession:
    def __init__(self, session: Any) -> None:
        self._session = session

    def unfit_reason(self) -> str | None:
        return SqlAlchemyConnection(self._session.connection()).unfit_reason()

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        return SqlAlchemyConnection(self._session.connection()).fetch(statement, parameters)


class _Async:
    """Runs the sync adapter in SQLAlchemy's `run_sync`, where sync code can wait for the event loop."""

    def __init__(self, connection: Any, kind: Callable[[Any], "SqlAlchemyConnection | SqlAlchemySession"]) -> None:
        self._connection = connection
        self._kind = kind

    async def unfit_reason(self) -> str | None:
        reason: str | None = await self._connection.run_sync(lambda inner: self._kind(inner).unfit_reason())
        return reason

    async def fetch(self, statement: str, parameters: Parameters) -> Rows:
        rows: Rows = await self._connection.run_sync(lambda inner: self._kind(inner).fetch(statement, parameters))
        return rows


def async_connection(connection: Any) -> _Async:
    return _Async(connection, SqlAlchemyConnection)


def async_session(session: Any) -> _Async:
    return _Async(session, SqlAlchemySession)
