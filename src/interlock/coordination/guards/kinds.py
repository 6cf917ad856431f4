"""Which kind of connection an object is, by the names of its classes: theirs and not ours, so nothing is imported."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from interlock.coordination.guards import asyncpg, django, psycopg, sqlalchemy

C = TypeVar("C", bound=Callable[..., Any])

Kinds = Mapping[tuple[str, str], C]
"""By package and class."""

SYNC = {
    ("psycopg", "Connection"): psycopg.carry,
    ("psycopg", "Cursor"): psycopg.carry_by_cursor,
    ("sqlalchemy", "Connection"): sqlalchemy.carry,
    ("sqlalchemy", "Session"): sqlalchemy.carry_by_session,
    ("sqlalchemy", "scoped_session"): sqlalchemy.carry_by_session,
    ("django", "BaseDatabaseWrapper"): django.carry,
    ("django", "ConnectionProxy"): django.carry,
    ("builtins", "str"): django.carry_by_alias,
    ("builtins", "NoneType"): django.carry_by_alias,
}

ASYNC = {
    ("psycopg", "AsyncConnection"): psycopg.carry_async,
    ("psycopg", "AsyncCursor"): psycopg.carry_by_cursor_async,
    ("asyncpg", "Connection"): asyncpg.carry_async,
    ("asyncpg", "PoolConnectionProxy"): asyncpg.carry_async,
    ("sqlalchemy", "AsyncConnection"): sqlalchemy.carry_async,
    ("sqlalchemy", "AsyncSession"): sqlalchemy.carry_by_session_async,
    ("sqlalchemy", "async_scoped_session"): sqlalchemy.carry_by_session_async,
}


def carrier(kinds: Kinds[C], connection: Any) -> C | None:
    """Subclasses count: whoever derives a connection of their own still means that connection."""
    for kind in type(connection).__mro__:
        if carry := kinds.get((kind.__module__.partition(".")[0], kind.__name__)):
            return carry
    return None
