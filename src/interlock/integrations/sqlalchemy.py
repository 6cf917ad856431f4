"""SQLAlchemy: every transaction of a session or an engine carries the guard of a grant.

::

    from interlock.integrations.sqlalchemy import guarded

    with locks.lease("shipping") as grant, guarded(session, grant):
        with session.begin(): ...        # commits only while the lease is ours; so does every later one in here

It takes a `Session`, an `AsyncSession`, an `Engine` or an `AsyncEngine`, with grants of either kind. An engine that
others use too is guarded for all of them: guard ``engine.execution_options()``, which is one of your own on its pool.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, SessionTransaction

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.sync.grant import Grant
from interlock.errors import ConfigurationError


@contextmanager
def guarded(target: Session | AsyncSession | Engine | AsyncEngine, grant: Grant | AsyncGrant) -> Iterator[None]:
    """Inside the block. A transaction that is open when it begins is refused: nobody can tell what it has done."""
    carry: Callable[[Any], None] = grant.guard if isinstance(grant, Grant) else partial(grant.guards.guard_sync, grant)
    plain = _plain(target)
    moment: str
    listener: Callable[..., None]
    if isinstance(plain, Session):
        _require_none_open(plain)
        moment, listener = "after_begin", _of_session(carry)
    else:
        moment, listener = "begin", carry
    event.listen(plain, moment, listener)
    try:
        yield
    finally:
        event.remove(plain, moment, listener)


def _of_session(carry: Callable[[Connection], None]) -> Callable[[Session, SessionTransaction, Connection], None]:
    def after_begin(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
        if not transaction.nested:  # the outermost has it by then, and a rollback to a savepoint would undo this one
            carry(connection)

    return after_begin


def _plain(target: Any) -> Session | Engine:
    """What events can be listened to on: async ones have a sync one inside."""
    if isinstance(target, AsyncSession):
        return target.sync_session
    if isinstance(target, AsyncEngine):
        return target.sync_engine
    if isinstance(target, Session | Engine):
        return target
    kind = type(target)
    raise ConfigurationError(
        f"An object of {kind.__module__}.{kind.__qualname__} has no transactions of its own to guard: "
        "pass a Session, an AsyncSession, an Engine or an AsyncEngine."
    )


def _require_none_open(session: Session) -> None:
    if session.in_transaction():
        raise ConfigurationError(
            "The session has a transaction open, which would not be guarded: commit it before, or call "
            "grant.guard(session) in it."
        )
