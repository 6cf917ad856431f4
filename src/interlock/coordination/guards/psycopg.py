"""Guards on connections of psycopg 3.

One that is not in autocommit mode begins a transaction with its first statement, so also with the guard.
"""

import sys
from typing import Any

from interlock.coordination.guards.call import Guarded, outside, parameters, statement
from interlock.errors import GuardRefused

_BETWEEN_TRANSACTIONS = ("IDLE", "ACTIVE")
_NOT_IN_PIPELINE = "OFF"


def carry(grant: Guarded, connection: Any) -> None:
    if _is_behind(connection):
        with connection.pipeline() as pipeline:
            pipeline.sync()
    if not _is_in_transaction(connection):
        raise _outside(grant)
    with _cursor("Cursor", connection) as cursor:
        cursor.execute(_statement(grant), parameters(grant))
        cursor.fetchone()  # in a pipeline the answer comes only to those who ask for it


def carry_by_cursor(grant: Guarded, cursor: Any) -> None:
    carry(grant, cursor.connection)


async def carry_async(grant: Guarded, connection: Any) -> None:
    if _is_behind(connection):
        async with connection.pipeline() as pipeline:
            await pipeline.sync()
    if not _is_in_transaction(connection):
        raise _outside(grant)
    async with _cursor("AsyncCursor", connection) as cursor:
        await cursor.execute(_statement(grant), parameters(grant))
        await cursor.fetchone()


async def carry_by_cursor_async(grant: Guarded, cursor: Any) -> None:
    await carry_async(grant, cursor.connection)


def _is_behind(connection: Any) -> bool:
    """In a pipeline BEGIN may have been sent and not answered: then nobody here knows of the transaction yet."""
    return bool(connection.autocommit) and connection.info.pipeline_status.name != _NOT_IN_PIPELINE


def _is_in_transaction(connection: Any) -> bool:
    return not connection.autocommit or connection.info.transaction_status.name not in _BETWEEN_TRANSACTIONS


def _cursor(kind: str, connection: Any) -> Any:
    """A plain one: those that the connection makes by itself may have placeholders or rows of another kind."""
    psycopg = sys.modules["psycopg"]
    return getattr(psycopg, kind)(connection, row_factory=psycopg.rows.tuple_row)


def _statement(grant: Guarded) -> str:
    return statement(grant.schema, "%s", "%s", "%s")


def _outside(grant: Guarded) -> GuardRefused:
    return outside(grant, "guard inside `with connection.transaction():`")
