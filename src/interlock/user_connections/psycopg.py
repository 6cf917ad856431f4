"""Connections of psycopg 3.

A connection that is not in autocommit mode begins a transaction with its first statement, which may be Interlock's.
"""

import sys
from typing import Any

from interlock.user_connections.adapter import Parameters, Rows, by_place, outside, placed

_BETWEEN_TRANSACTIONS = ("IDLE", "ACTIVE")
_NOT_IN_PIPELINE = "OFF"


class PsycopgConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def unfit_reason(self) -> str | None:
        if _is_behind(self._connection):
            with self._connection.pipeline() as pipeline:
                pipeline.sync()
        return _unfit(self._connection)

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        with _cursor("Cursor", self._connection) as cursor:
            cursor.execute(by_place(statement), placed(statement, parameters))
            return list(cursor.fetchall())  # in a pipeline the rows arrive only when they are fetched


class AsyncPsycopgConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def unfit_reason(self) -> str | None:
        if _is_behind(self._connection):
            async with self._connection.pipeline() as pipeline:
                await pipeline.sync()
        return _unfit(self._connection)

    async def fetch(self, statement: str, parameters: Parameters) -> Rows:
        async with _cursor("AsyncCursor", self._connection) as cursor:
            await cursor.execute(by_place(statement), placed(statement, parameters))
            return list(await cursor.fetchall())


def _is_behind(connection: Any) -> bool:
    """True if psycopg may not know of a transaction yet: in a pipeline, BEGIN may be sent and not answered."""
    return bool(connection.autocommit) and connection.info.pipeline_status.name != _NOT_IN_PIPELINE


def _unfit(connection: Any) -> str | None:
    if not connection.autocommit or connection.info.transaction_status.name not in _BETWEEN_TRANSACTIONS:
        return None
    return outside("do it inside `with connection.transaction():`")


def _cursor(kind: str, connection: Any) -> Any:
    """Returns a plain cursor, because the connection's own cursor factory may use other placeholders or other rows."""
    psycopg = sys.modules["psycopg"]
    return getattr(psycopg, kind)(connection, row_factory=psycopg.rows.tuple_row)
