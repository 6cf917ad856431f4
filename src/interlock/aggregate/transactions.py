"""Transactions on records, and the statements in them.

A `Transactions` object owns a few connections. Each is opened when it is needed, and serves one transaction at a time:
a transaction may have to wait for the locks of another one, and on a single connection all others would wait as well.
Statements run on a connection of any kind that Interlock supports, in the transaction that is open on it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeVar

from interlock import user_connections
from interlock.errors import RetryTransaction, StatementFailed, StoreError, StoreThrottled
from interlock.stores.postgres import Session, connect
from interlock.stores.postgres.queries import Queries

T = TypeVar("T")

_TIMEOUT = 20.0
_ATTEMPTS = 5
_AGAIN = ("40P01", "23505")
"""A deadlock; or another transaction has just inserted the same row: the next attempt finds that row."""


class Transactions:
    """Transactions on a few sessions.

    `purpose` names the sessions in the server. `timeout` limits the wait for a free session.
    """

    def __init__(self, url: str, purpose: str, size: int = 5, *, timeout: float | None = None) -> None:
        self._url = url
        self._purpose = purpose
        self._free: list[Session] = []
        self._slots = asyncio.Semaphore(size)
        self._timeout = timeout
        self._is_closed = False

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run `work` in a transaction of its own, and repeat the transaction if it conflicts with another one."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._transacted(work)
            except RetryTransaction:
                pass
            except StatementFailed as error:
                if error.sqlstate not in _AGAIN:
                    raise
        return await self._transacted(work)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a transaction. Yields its connection, which `Attempt.fence` accepts."""
        async with self.session() as session, session.transaction(longest_pause=_TIMEOUT):
            yield session.driver_connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Yields a session.

        It is reused afterwards, unless its use ended with an error that may have left something behind.
        """
        async with self._slot():
            session = await self._acquire()
            try:
                yield session
            except StoreError:
                await session.abort()
                raise
            except Exception:
                self._release(session)
                raise
            except BaseException:
                session.hang_up()
                raise
            self._release(session)

    async def close(self) -> None:
        self._is_closed = True
        free, self._free = self._free, []
        for session in free:
            await session.close()

    async def _transacted(self, work: Callable[[Any], Awaitable[T]]) -> T:
        async with self.transaction() as connection:
            return await work(connection)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout):
                await self._slots.acquire()
        except TimeoutError:
            raise StoreThrottled("All connections to the database are in use: try again in a while.") from None
        try:
            yield
        finally:
            self._slots.release()

    async def _acquire(self) -> Session:
        while self._free:
            if not (session := self._free.pop()).is_closed:
                return session
        name = f"interlock {self._purpose}"
        return await connect(self._url, application_name=name, statement_timeout=_TIMEOUT, prepared=True)

    def _release(self, session: Session) -> None:
        if self._is_closed:
            session.hang_up()
        elif not session.is_closed:
            self._free.append(session)


@cache
def queries(package: str, schema: str) -> Queries:
    """Returns the statements in ``queries.sql`` of that package."""
    return Queries(package, "queries.sql", schema)


async def fetch(connection: Any, statement: str, *args: Any) -> user_connections.Rows:
    return await user_connections.run_steps(connection, _rows(statement, [storable(each) for each in args]))


def storable(value: Any) -> Any:
    """Returns `value` without the characters that PostgreSQL stores in no text.

    Texts of other systems may contain such characters.
    """
    return value.encode(errors="replace").decode().replace("\0", "?") if isinstance(value, str) else value


def _rows(sql: str, args: Sequence[Any]) -> user_connections.Steps[user_connections.Rows]:
    return (yield sql, args)
