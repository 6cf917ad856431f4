"""Records read and written on a user's connection, as part of the transaction that is open there."""

from collections.abc import Awaitable, Callable
from typing import Any

from interlock.coordination.lease.grant import AsyncGrant
from interlock.errors import ConfigurationError, InterlockError, PermissionMissing
from interlock.stores.postgres.queries import in_schema
from interlock.user_connections import Steps
from interlock.user_connections.adapter import unfit

_READ = """
    SELECT pg_catalog.current_setting('transaction_isolation'),
           (SELECT value FROM interlock.read_record_v1(CAST($1 AS text)))
"""
_WRITE = """
    SELECT interlock.write_record_v1(CAST($1 AS text), CAST(CAST($2 AS text) AS json), CAST($3 AS text),
                                     CAST($4 AS bigint), CAST(CAST($5 AS text) AS uuid))
"""
_OLD_SNAPSHOTS = ("repeatable read", "serializable")

Ask = Callable[[Steps[Any]], Awaitable[Any]]
"""On that connection, in whichever thread it belongs to."""


def judge(code: str | None) -> InterlockError | None:
    """What the server's code means: the connection leads to the wrong place, or as the wrong role."""
    if code in ("42883", "3F000"):
        return unfit("Its database has no records of Interlock's: pass a connection to the one that keeps the leases")
    if code == "42501":
        return PermissionMissing(
            "The connection's role may not record operations: run `interlock schema grant ROLE --for leases`."
        )
    return None


class UserTransaction:
    """A transaction of the user's, in the database that keeps the leases."""

    def __init__(self, ask: Ask, schema: str) -> None:
        if not schema:
            raise ConfigurationError("connection= needs leases that are kept in PostgreSQL: this database is another.")
        self._ask = ask
        self._schema = schema

    async def read(self, key: str) -> str | None:
        """As the transaction sees it: what it has written itself is there."""
        value: str | None = await self._ask(self._reading(key))
        return value

    async def write(self, key: str, value: str, grant: AsyncGrant) -> bool:
        """False: the grant is not current. From then on nobody gets the lease before the transaction has ended."""
        written: bool = await self._ask(self._writing(key, value, grant))
        return written

    def _reading(self, key: str) -> Steps[str | None]:
        [[isolation, value]] = yield in_schema(_READ, self._schema), [key]
        if isolation in _OLD_SNAPSHOTS:
            raise unfit(
                f"Its transaction is at {isolation.upper()}, and would not see a lease that is taken after it began: "
                "use READ COMMITTED"
            )
        return None if value is None else str(value)

    def _writing(self, key: str, value: str, grant: AsyncGrant) -> Steps[bool]:
        parameters = [key, value, grant.name, grant.token, str(grant.grant_id)]
        [[written]] = yield in_schema(_WRITE, self._schema), parameters
        return bool(written)
