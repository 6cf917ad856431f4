"""Finds the adapter for a connection by the names of its classes, so that no driver is imported."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from interlock.errors import ConnectionUnfit
from interlock.user_connections import asyncpg, django, psycopg, sqlalchemy
from interlock.user_connections.adapter import AsyncAdapter, SyncAdapter, unfit

C = TypeVar("C", bound=Callable[..., Any])

Kinds = Mapping[tuple[str, str], C]
"""Adapters by the package and the class of the connection."""

SYNC: Kinds[Callable[[Any], SyncAdapter]] = {
    ("psycopg", "Connection"): psycopg.PsycopgConnection,
    ("psycopg", "Cursor"): lambda cursor: psycopg.PsycopgConnection(cursor.connection),
    ("sqlalchemy", "Connection"): sqlalchemy.SqlAlchemyConnection,
    ("sqlalchemy", "Session"): sqlalchemy.SqlAlchemySession,
    ("sqlalchemy", "scoped_session"): sqlalchemy.SqlAlchemySession,
    ("django", "BaseDatabaseWrapper"): django.DjangoConnection,
    ("django", "ConnectionProxy"): django.DjangoConnection,
    ("builtins", "str"): django.by_alias,
    ("builtins", "NoneType"): django.by_alias,
}

ASYNC: Kinds[Callable[[Any], AsyncAdapter]] = {
    ("psycopg", "AsyncConnection"): psycopg.AsyncPsycopgConnection,
    ("psycopg", "AsyncCursor"): lambda cursor: psycopg.AsyncPsycopgConnection(cursor.connection),
    ("asyncpg", "Connection"): asyncpg.AsyncpgConnection,
    ("asyncpg", "PoolConnectionProxy"): asyncpg.AsyncpgConnection,
    ("sqlalchemy", "AsyncConnection"): sqlalchemy.async_connection,
    ("sqlalchemy", "AsyncSession"): sqlalchemy.async_session,
    ("sqlalchemy", "async_scoped_session"): sqlalchemy.async_session,
}


def find_kind(kinds: Kinds[C], connection: Any) -> C | None:
    """Returns the entry for the connection's class, or for the first of its base classes that has an entry."""
    kind: Any = type(connection)
    for name in _names(kind):
        if found := kinds.get(name):
            return found
    return None


@lru_cache(maxsize=64)
def _names(kind: Any) -> tuple[tuple[str, str], ...]:
    """Returns package and name of a class, and of each of its base classes."""
    return tuple((each.__module__.partition(".")[0], each.__name__) for each in kind.__mro__)


def sync_adapter(connection: Any) -> SyncAdapter:
    """Returns the adapter. A string is the alias of one of Django's databases; None is Django's default database."""
    kind = find_kind(SYNC, connection)
    if kind is not None:
        return kind(connection)
    if find_kind(ASYNC, connection):
        raise unfit(f"{_shown(connection)} needs an event loop: use AsyncInterlock, or pass a sync connection")
    raise _unknown(connection)


def async_adapter(connection: Any) -> AsyncAdapter:
    kind = find_kind(ASYNC, connection)
    if kind is not None:
        return kind(connection)
    if connection is None:
        raise unfit("There is no connection: pass the async connection whose transaction has to include this operation")
    if find_kind(SYNC, connection):
        raise unfit(
            f"{_shown(connection)} would block the event loop: pass an async connection, "
            "or use the sync class Interlock in the thread that the connection belongs to"
        )
    raise _unknown(connection)


def _unknown(connection: Any) -> ConnectionUnfit:
    return unfit(
        f"{_shown(connection)} is not a connection that Interlock knows: "
        "pass one of psycopg 3, asyncpg, SQLAlchemy or Django"
    )


def _shown(connection: Any) -> str:
    kind = type(connection)
    return f"An object of {kind.__module__}.{kind.__qualname__}"
