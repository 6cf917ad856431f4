"""psycopg's pools, sync and async in one shape. They have one connection to lend, so who is next has what was left."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, AsyncNullConnectionPool, ConnectionPool, NullConnectionPool

from interlock.connections import code_of
from interlock.coordination.guards import Guarded, guarding, guarding_sync
from support.carriers import entered

STANDING_THERE = "SELECT coalesce(current_setting('interlock_guard.standing', true), '')"

Reset = Callable[[Any], Any] | None


@dataclass
class Lender:
    pool: Any
    is_async: bool

    async def borrow(self) -> Any:
        return await _done(self.pool.getconn(timeout=60))

    async def take_back(self, connection: Any) -> None:
        await _done(self.pool.putconn(connection))

    def connection(self) -> AbstractAsyncContextManager[Any]:
        return entered_with(self.pool.connection(timeout=60))

    def guarding(self, connection: Any, *grants: Guarded) -> AbstractAsyncContextManager[None]:
        return entered(lambda: (guarding if self.is_async else guarding_sync)(grants, connection))

    async def next_finds(self) -> tuple[int, str, str]:
        """Who borrows next: the process of the session, what stands there, and what becomes of a write."""
        connection = await self.borrow()
        try:
            return await found(connection)
        finally:
            await self.take_back(connection)


async def found(connection: Any) -> tuple[int, str, str]:
    stands = await asked(connection, STANDING_THERE)
    await _done(connection.rollback())
    return connection.info.backend_pid, stands, await written(connection, "next")


async def asked(connection: Any, statement: str) -> Any:
    cursor = await _done(connection.execute(statement))
    return (await _done(cursor.fetchone()))[0]


async def written(connection: Any, note: str) -> str:
    """The code that a transaction fails with that only writes, or `committed`."""
    try:
        await write(connection, note)
    except psycopg.Error as error:
        return code_of(error) or "no code"
    return "committed"


async def write(connection: Any, note: str) -> None:
    async with entered(connection.transaction):
        await _done(connection.execute("INSERT INTO notes VALUES (%s)", [note]))


async def done(connection: Any, statement: str) -> None:
    await _done(connection.execute(statement))


@asynccontextmanager
async def entered_with(manager: Any) -> AsyncIterator[Any]:
    if hasattr(manager, "__aenter__"):
        async with manager as given:
            yield given
    else:
        with manager as given:
            yield given


@asynccontextmanager
async def lending(url: str, *, is_async: bool, reset: Reset = None, **options: Any) -> AsyncIterator[Lender]:
    kind: Any = AsyncConnectionPool if is_async else ConnectionPool
    async with entered_with(kind(url, min_size=1, max_size=1, open=False, reset=reset, **options)) as pool:
        yield Lender(pool, is_async)


@asynccontextmanager
async def lending_anew(url: str, *, is_async: bool) -> AsyncIterator[Lender]:
    """Pools that keep nothing, and hand a connection on if somebody is waiting for it."""
    kind: Any = AsyncNullConnectionPool if is_async else NullConnectionPool
    async with entered_with(kind(url, max_size=1, open=False)) as pool:
        yield Lender(pool, is_async)


def forgets_nothing(connection: Any) -> Any:
    """A callback of the pool's that leaves every setting where it is."""
    return _nothing() if isinstance(connection, psycopg.AsyncConnection) else None


def forgets_all(connection: Any) -> Any:
    return _forget(connection) if isinstance(connection, psycopg.AsyncConnection) else _forget_sync(connection)


async def _nothing() -> None:
    pass


async def _forget(connection: Any) -> None:
    await connection.execute("RESET ALL")
    await connection.commit()


def _forget_sync(connection: Any) -> None:
    connection.execute("RESET ALL")
    connection.commit()


async def _done(running: Any) -> Any:
    return await running if inspect.isawaitable(running) else running
