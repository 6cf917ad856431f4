"""Connections of asyncpg, with or without its pool."""

from typing import Any

from interlock.user_connections.adapter import Parameters, Rows, outside


class AsyncpgConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def unfit_reason(self) -> str | None:
        if self._connection.is_in_transaction():
            return None
        return outside("do it inside `async with connection.transaction():`")

    async def fetch(self, statement: str, parameters: Parameters) -> Rows:
        return [tuple(row) for row in await self._connection.fetch(statement, *parameters)]
