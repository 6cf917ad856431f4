"""One statement in the caller's own transaction, on whatever connection that is.

Kinds are told by the names of their classes, theirs and not ours, so that nothing is imported.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

from interlock.errors import AttemptSuperseded, ConfigurationError

_SUPERSEDED = "IL010"

Ask = Callable[[Any, str, tuple[Any, ...]], Awaitable[Any]]


async def ask(connection: Any, sql: str, *args: Any) -> Any:
    """The one value that `sql` gives; its placeholders are $1, $2 and so on, each used once and in that order."""
    for kind in type(connection).__mro__:
        if found := _KINDS.get((kind.__module__.partition(".")[0], kind.__name__)):
            try:
                return await found(connection, sql, args)
            except Exception as error:
                if _sqlstate(error) == _SUPERSEDED:
                    raise AttemptSuperseded(
                        "Another replica has gone on with this step: roll back, what was done here does not count."
                    ) from error
                raise
    raise ConfigurationError(
        f"{type(connection).__qualname__} is no connection that can be used here: give one of asyncpg, of psycopg "
        "(asynchronous) or of SQLAlchemy (asynchronous)."
    )


async def _asyncpg(connection: Any, sql: str, args: tuple[Any, ...]) -> Any:
    if not connection.is_in_transaction():
        raise _outside()
    return await connection.fetchval(sql, *args)


async def _psycopg(connection: Any, sql: str, args: tuple[Any, ...]) -> Any:
    if connection.autocommit and connection.info.transaction_status.name in ("IDLE", "ACTIVE"):
        raise _outside()
    psycopg = sys.modules["psycopg"]
    async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute(_with(sql, args, lambda number: "%s"), args)
        row = await cursor.fetchone()
        return row[0] if row else None


async def _sqlalchemy(connection: Any, sql: str, args: tuple[Any, ...]) -> Any:
    text = sys.modules["sqlalchemy"].text(_with(sql, args, lambda number: f":value_{number}"))
    result = await connection.execute(text, {f"value_{number}": value for number, value in enumerate(args, 1)})
    return result.scalar()


def _with(sql: str, args: tuple[Any, ...], placeholder: Callable[[int], str]) -> str:
    for number in range(len(args), 0, -1):
        sql = sql.replace(f"${number}", placeholder(number))
    return sql


def _sqlstate(error: BaseException | None) -> str | None:
    """The server's code, also of an error that another one was made of."""
    while error is not None:
        for holder in (error, getattr(error, "orig", None)):
            if code := getattr(holder, "sqlstate", None):
                return str(code)
        error = error.__cause__
    return None


def _outside() -> ConfigurationError:
    return ConfigurationError(
        "The connection is in no transaction, so this would hold for one statement only: use it inside "
        "`async with connection.transaction():`."
    )


_KINDS: dict[tuple[str, str], Ask] = {
    ("asyncpg", "Connection"): _asyncpg,
    ("asyncpg", "PoolConnectionProxy"): _asyncpg,
    ("psycopg", "AsyncConnection"): _psycopg,
    ("sqlalchemy", "AsyncConnection"): _sqlalchemy,
    ("sqlalchemy", "AsyncSession"): _sqlalchemy,
}
