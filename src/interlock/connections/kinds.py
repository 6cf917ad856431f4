"""Which kind of connection an object is, by the names of its classes: theirs and not ours, so nothing is imported."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from interlock.connections import asyncpg, django, psycopg, sqlalchemy
from interlock.connections.use import AsyncUse, SyncUse, unfit
from interlock.errors import ConnectionUnfit

C = TypeVar("C", bound=Callable[..., Any])

Kinds = Mapping[tuple[str, str], C]
"""By package and class."""

SYNC: Kinds[Callable[[Any], SyncUse]] = {
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

ASYNC: Kinds[Callable[[Any], AsyncUse]] = {
    ("psycopg", "AsyncConnection"): psycopg.AsyncPsycopgConnection,
    ("psycopg", "AsyncCursor"): lambda cursor: psycopg.AsyncPsycopgConnection(cursor.connection),
    ("asyncpg", "Connection"): asyncpg.AsyncpgConnection,
    ("asyncpg", "PoolConnectionProxy"): asyncpg.AsyncpgConnection,
    ("sqlalchemy", "AsyncConnection"): sqlalchemy.async_connection,
    ("sqlalchemy", "AsyncSession"): sqlalchemy.async_session,
    ("sqlalchemy", "async_scoped_session"): sqlalchemy.async_session,
}


def recognised(kinds: Kinds[C], connection: Any) -> C | None:
    """Subclasses count: whoever derives a connection of their own still means that connection."""
    kind: Any = type(connection)
    for name in _names(kind):
        if found := kinds.get(name):
            return found
    return None


@lru_cache(maxsize=64)
def _names(kind: Any) -> tuple[tuple[str, str], ...]:
    """A class's own, and those of what it is derived from."""
    return tuple((each.__module__.partition(".")[0], each.__name__) for each in kind.__mro__)


def sync_use(connection: Any) -> SyncUse:
    """An alias is one of Django's databases, and nothing is Django's default."""
    kind = recognised(SYNC, connection)
    if kind is not None:
        return kind(connection)
    if recognised(ASYNC, connection):
        raise unfit(
            f"{_shown(connection)} needs an event loop: use what is async (AsyncInterlock), or a sync connection"
        )
    raise _unknown(connection)


def async_use(connection: Any) -> AsyncUse:
    kind = recognised(ASYNC, connection)
    if kind is not None:
        return kind(connection)
    if connection is None:
        raise unfit("Pass it the async connection whose transaction it is to be part of")
    if recognised(SYNC, connection):
        raise unfit(
            f"{_shown(connection)} would block the event loop: pass an async connection, "
            "or use what is sync (Interlock) in the thread that the connection belongs to"
        )
    raise _unknown(connection)


def _unknown(connection: Any) -> ConnectionUnfit:
    return unfit(
        f"{_shown(connection)} is no connection that Interlock knows: "
        "pass one of psycopg 3, asyncpg, SQLAlchemy or Django"
    )


def _shown(connection: Any) -> str:
    kind = type(connection)
    return f"An object of {kind.__module__}.{kind.__qualname__}"
