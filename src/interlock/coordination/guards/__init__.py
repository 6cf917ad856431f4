"""The guard of a grant, put into a transaction of the user's own.

Inside a transaction, one call: from then on the transaction commits only while the grant is current, and whoever gets
the lease next gets it after that COMMIT. What decides is `guard_v1` in the database; here is only how it is called on
connections of many kinds. None of their packages is imported: a connection says itself what it is.

A file for each kind. A sync connection is used in the caller's thread and nowhere else, as its own statements are.
"""

from typing import Any

from interlock.coordination.guards.call import Guarded, refused
from interlock.coordination.guards.kinds import ASYNC, SYNC, carrier
from interlock.coordination.guards.verdicts import judged

__all__ = ["Guarded", "guard", "guard_sync"]


async def guard(grant: Guarded, connection: Any) -> None:
    """`LeaseLost`: the grant is not current, roll back. `GuardRefused`: not on this connection as it stands."""
    grant.check()  # or a holder that no longer trusts its lease could go on keeping others out, guard by guard
    carry = carrier(ASYNC, connection)
    if carry is None:
        raise refused(grant, _not_async(connection))
    with judged(grant):
        await carry(grant, connection)


def guard_sync(grant: Guarded, connection: Any = None) -> None:
    """As `guard`, in the calling thread. An alias is one of Django's databases, and nothing is Django's default."""
    grant.check()
    carry = carrier(SYNC, connection)
    if carry is None:
        raise refused(grant, _not_sync(connection))
    with judged(grant):
        carry(grant, connection)


def _not_async(connection: Any) -> str:
    if connection is None:
        return "Pass it the async connection whose transaction it is to guard"
    if carrier(SYNC, connection):
        return (
            f"{_shown(connection)} would block the event loop: pass an async connection, "
            "or use the sync Interlock in the thread that the connection belongs to"
        )
    return _unknown(connection)


def _not_sync(connection: Any) -> str:
    if carrier(ASYNC, connection):
        return f"{_shown(connection)} needs an event loop: await the guard of an AsyncGrant, or use a sync connection"
    return _unknown(connection)


def _unknown(connection: Any) -> str:
    return (
        f"{_shown(connection)} is no connection that a guard knows: pass one of psycopg 3, asyncpg, SQLAlchemy or "
        "Django, or call guard_v1 in SQL as docs/guard.md shows"
    )


def _shown(connection: Any) -> str:
    kind = type(connection)
    return f"An object of {kind.__module__}.{kind.__qualname__}"
