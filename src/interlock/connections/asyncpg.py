"""Connections of asyncpg, from its pool or not."""

from typing import Any, Self

from interlock.connections.drivers import is_engaged
from interlock.connections.use import Parameters, Rows, outside


class AsyncpgConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def unfit(self) -> str | None:
        if self._connection.is_in_transaction():
            return None
        return outside("do it inside `async with connection.transaction():`")

    async def fetch(self, statement: str, parameters: Parameters) -> Rows:
        return [tuple(row) for row in await self._connection.fetch(statement, *parameters)]

    def session(self) -> Self:
        return self

    async def is_engaged(self) -> bool:
        return is_engaged(self._connection)

    async def settle(self, statement: str, parameters: Parameters) -> Rows:
        return await self.fetch(statement, parameters)

    async def roll_back(self) -> None:
        await self._connection.execute("ROLLBACK")

    async def driver(self) -> Any:
        """A pool's connection is a stand-in, which has nothing any more when it was given back or is broken."""
        return getattr(self._connection, "_con", self._connection)

    def loan(self) -> "_NoLoan":
        return _NoLoan()


class _NoLoan:
    """asyncpg's pool takes every setting away from what it is given back."""

    is_over = False

    def reserve(self) -> None:
        pass

    def free(self) -> None:
        pass

    def forfeit(self) -> None:
        pass
