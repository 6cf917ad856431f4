"""Statements on a connection of any kind that Interlock knows, in the transaction that is open there."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from interlock import user_connections
from interlock.stores.postgres.queries import Queries


@cache
def queries(package: str, schema: str) -> Queries:
    """The statements of that package's ``queries.sql``."""
    return Queries(package, "queries.sql", schema)


async def ask(connection: Any, statement: str, *args: Any) -> user_connections.Rows:
    return await user_connections.run_steps(connection, _rows(statement, [storable(each) for each in args]))


def storable(value: Any) -> Any:
    """Texts of other systems may have in them what PostgreSQL keeps in no text."""
    return value.encode(errors="replace").decode().replace("\0", "?") if isinstance(value, str) else value


def _rows(sql: str, args: Sequence[Any]) -> user_connections.Steps[user_connections.Rows]:
    return (yield sql, args)
