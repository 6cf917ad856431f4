"""SQLAlchemy's connections and sessions, with any driver for PostgreSQL.

They begin a transaction with their first statement, so also with one of ours, unless they are in autocommit mode.
Statements go to the driver as they are: SQLAlchemy would guess types for the parameters, and guess some wrongly.
"""

from collections.abc import Callable
from typing import Any, NoReturn, Self

from interlock.connections.drivers import hang_up, is_engaged
from interlock.connections.use import Parameters, Rows, by_name, by_place, named, outside, placed, unfit


class SqlAlchemyConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def unfit(self) -> str | None:
        if why := self._foreign():
            return why
        if self._commits_by_itself():
            return outside("take the execution option isolation_level='AUTOCOMMIT' away from it")
        return None

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        return [tuple(row) for row in self._execute(statement, parameters).fetchall()]

    def session(self) -> Self:
        if why := self._foreign():
            raise unfit(why)
        return self

    def is_engaged(self) -> bool:
        """In autocommit mode it says that it is in a transaction, and the server knows of none."""
        return (self._connection.in_transaction() and not self._commits_by_itself()) or is_engaged(self.driver())

    def settle(self, statement: str, parameters: Parameters) -> Rows:
        if self._connection.in_transaction():
            return self.fetch(statement, parameters)
        with self._connection.begin():
            return self.fetch(statement, parameters)

    def roll_back(self) -> None:
        self._connection.rollback()

    def driver(self) -> Any:
        """A connection that was closed has given it back to its pool."""
        return None if self._connection.closed else self._connection.connection.driver_connection

    def loan(self) -> "_PooledLoan":
        return _PooledLoan(self._connection)

    def _commits_by_itself(self) -> bool:
        return bool(self._connection.connection.dbapi_connection.autocommit)

    def _foreign(self) -> str | None:
        if self._connection.dialect.name == "postgresql":
            return None
        return f"The connection leads to {self._connection.dialect.name}, and Interlock's tables are in PostgreSQL"

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

    def unfit(self) -> str | None:
        return SqlAlchemyConnection(self._session.connection()).unfit()

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        return SqlAlchemyConnection(self._session.connection()).fetch(statement, parameters)

    def session(self) -> NoReturn:
        raise unfit(
            "A session of SQLAlchemy's takes a connection for each transaction, and gives it back: "
            "pass a connection, and bind the session to that"
        )


class _Async:
    """The sync one does it, where SQLAlchemy lets it wait."""

    def __init__(self, connection: Any, kind: Callable[[Any], "SqlAlchemyConnection | SqlAlchemySession"]) -> None:
        self._connection = connection
        self._kind = kind

    async def unfit(self) -> str | None:
        found: str | None = await self._connection.run_sync(lambda inner: self._kind(inner).unfit())
        return found

    async def fetch(self, statement: str, parameters: Parameters) -> Rows:
        rows: Rows = await self._connection.run_sync(lambda inner: self._kind(inner).fetch(statement, parameters))
        return rows

    def session(self) -> "_AsyncSession":
        self._kind(self._connection).session()  # or why not
        return _AsyncSession(self._connection)


class _AsyncSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def is_engaged(self) -> bool:
        return bool(await self._connection.run_sync(lambda inner: SqlAlchemyConnection(inner).is_engaged()))

    async def settle(self, statement: str, parameters: Parameters) -> Rows:
        rows: Rows = await self._connection.run_sync(
            lambda inner: SqlAlchemyConnection(inner).settle(statement, parameters)
        )
        return rows

    async def roll_back(self) -> None:
        await self._connection.rollback()

    async def driver(self) -> Any:
        if self._connection.closed:
            return None
        return await self._connection.run_sync(lambda inner: SqlAlchemyConnection(inner).driver())

    def loan(self) -> "_PooledLoan":
        return _PooledLoan(self._connection.sync_connection)


_RESERVED = "interlock.reserved"
"""In what SQLAlchemy keeps of a driver's connection: how many have reserved it, and what was said of it before."""


class _PooledLoan:
    """A pool of SQLAlchemy's replaces what was softly invalidated when it would lend it next, and until then does not
    touch it. Reserved is what is invalidated so; freed, it is as it was before."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._driver = connection.connection.driver_connection
        self._record = getattr(
            connection.connection, "_connection_record", None
        )  # none, if it was taken out of its pool
        self._reserved: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        return bool(self._connection.closed)

    def reserve(self) -> None:
        if self._record is None:
            return
        if _RESERVED not in self._record.info:
            self._record.info[_RESERVED] = {"by": 0, "before": self._record._soft_invalidate_time}
            self._record.invalidate(soft=True)
        self._reserved = self._record.info[_RESERVED]
        self._reserved["by"] += 1

    def free(self) -> None:
        if self._record is None or self._reserved is None:
            return
        self._reserved["by"] -= 1
        if not self._reserved["by"] and self._record.info.get(_RESERVED) is self._reserved:
            del self._record.info[_RESERVED]
            self._record._soft_invalidate_time = self._reserved["before"]

    def forfeit(self) -> None:
        hang_up(self._driver)


def async_connection(connection: Any) -> _Async:
    return _Async(connection, SqlAlchemyConnection)


def async_session(session: Any) -> _Async:
    return _Async(session, SqlAlchemySession)
