"""SQLAlchemy: the guard of a grant in every transaction of a session or an engine.

::

    from interlock.integrations.sqlalchemy import guarded

    with locks.lease("shipping") as grant, guarded(session, grant):
        with session.begin(): ...    # commits only while the lease is held; so does every later transaction in here

The target is a `Session`, an `AsyncSession`, an `Engine` or an `AsyncEngine`; the grant may be synchronous or
asynchronous. The guard of an engine applies to all users of the engine. To guard only your own use of a shared engine,
pass ``engine.execution_options()``, which is another engine on the same pool.
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
    """Guard every transaction that begins inside the block. Refuses a session with an open transaction, whose earlier
    statements were not guarded."""
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
        if not transaction.nested:  # the outermost has the guard; a rollback to a savepoint would undo one inside it
            carry(connection)

    return after_begin


def _plain(target: Any) -> Session | Engine:
    """Returns the object that has the events: the target, or the synchronous object inside an asynchronous target."""
    if isinstance(target, AsyncSession):
        return target.sync_session
    if isinstance(target, AsyncEngine):
        return target.sync_engine
    if isinstance(target, Session | Engine):
        return target
    kind = type(target)
    raise ConfigurationError(
        f"guarded() cannot guard an object of {kind.__module__}.{kind.__qualname__}: "
        "pass a Session, an AsyncSession, an Engine or an AsyncEngine."
    )


def _require_none_open(session: Session) -> None:
    if session.in_transaction():
        raise ConfigurationError(
            "The session has an open transaction, which would not be guarded: commit it before guarded(), "
            "or call grant.guard(session) in this transaction."
        )
