"""One statement in the caller's own transaction, on a connection of the caller's."""

from typing import Any

from interlock import user_connections
from interlock.errors import AttemptSuperseded, InterlockError

_SUPERSEDED = "IL010"


async def ask(connection: Any, sql: str, *args: Any) -> Any:
    """The one value that `sql` gives; None without a row. Raises `ConnectionUnfit` outside a transaction."""
    return await user_connections.run_steps(connection, _value(sql, args), _judge)


async def ask_rows(connection: Any, sql: str, *args: Any) -> user_connections.Rows:
    """All rows that `sql` gives, otherwise as `ask`."""
    return await user_connections.run_steps(connection, _rows(sql, args), _judge)


def ask_sync(connection: Any, sql: str, *args: Any) -> Any:
    return user_connections.run_steps_sync(connection, _value(sql, args), _judge)


def _rows(sql: str, args: tuple[Any, ...]) -> user_connections.Steps[user_connections.Rows]:
    return (yield sql, args)


def _value(sql: str, args: tuple[Any, ...]) -> user_connections.Steps[Any]:
    rows = yield sql, args
    return rows[0][0] if rows else None


def _judge(code: str | None) -> InterlockError | None:
    if code == _SUPERSEDED:
        return AttemptSuperseded(
            "Another replica has gone on with this step: roll back, what was done here does not count."
        )
    return None
