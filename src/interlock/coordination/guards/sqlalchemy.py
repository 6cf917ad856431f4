"""Guards on SQLAlchemy's connections and sessions, with any driver for PostgreSQL.

They begin a transaction with their first statement, so also with the guard, unless they are in autocommit mode.
"""

import sys
from typing import Any

from interlock.coordination.guards.call import Guarded, outside, parameters, refused, statement

_NAMES = ("lease_name", "lease_token", "lease_grant")


def carry(grant: Guarded, connection: Any) -> None:
    if connection.dialect.name != "postgresql":
        raise refused(grant, f"The connection leads to {connection.dialect.name}, and leases are kept in PostgreSQL")
    if connection.connection.dbapi_connection.autocommit:
        raise outside(grant, "take the execution option isolation_level='AUTOCOMMIT' away from it")
    text = sys.modules["sqlalchemy"].text
    call = statement(grant.schema, *(f":{name}" for name in _NAMES))
    connection.execute(text(call), dict(zip(_NAMES, parameters(grant), strict=True)))


def carry_by_session(grant: Guarded, session: Any) -> None:
    carry(grant, session.connection())


async def carry_async(grant: Guarded, connection: Any) -> None:
    await connection.run_sync(lambda inner: carry(grant, inner))


async def carry_by_session_async(grant: Guarded, session: Any) -> None:
    await session.run_sync(lambda inner: carry_by_session(grant, inner))
