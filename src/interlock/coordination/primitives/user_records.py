"""Reads and writes records on a user's connection, as part of the transaction that is open on it."""

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

RunSteps = Callable[[Steps[Any]], Awaitable[Any]]
"""A function that runs statements on the user's connection, in the thread that the connection belongs to."""


def translate_error(code: str | None) -> InterlockError | None:
    """Translate an SQLSTATE that means a wrong database or a missing privilege; return None for any other SQLSTATE."""
    if code in ("42883", "3F000"):
        return unfit(
            "Its database has no records of Interlock: pass a connection to the database that keeps the leases"
        )
    if code == "42501":
        return PermissionMissing(
            "The connection's role may not record operations: run `interlock schema grant ROLE --for leases`."
        )
    return None


class UserTransaction:
    """A transaction of the user, in the database that keeps the leases."""

    def __init__(self, run_steps: RunSteps, schema: str) -> None:
        if not schema:
            raise ConfigurationError(
                "connection= works only with leases that are kept in PostgreSQL, but these leases are in another "
                "kind of database: "
                "leave connection= out."
            )
        self._run_steps = run_steps
        self._schema = schema

    async def read(self, key: str) -> str | None:
        """Returns the record as the transaction sees it, which includes the transaction's own writes."""
        value: str | None = await self._run_steps(self._read_steps(key))
        return value

    async def write(self, key: str, value: str, grant: AsyncGrant) -> bool:
        """Write the record. Returns False if the grant is not current. No other process can acquire the lease until the
        transaction ends."""
        written: bool = await self._run_steps(self._write_steps(key, value, grant))
        return written

    def _read_steps(self, key: str) -> Steps[str | None]:
        [[isolation, value]] = yield in_schema(_READ, self._schema), [key]
        if isolation in _OLD_SNAPSHOTS:
            raise unfit(
                f"Its transaction is at {isolation.upper()}, and would not see a lease acquired after the transaction "
                "began: "
                "use READ COMMITTED"
            )
        return None if value is None else str(value)

    def _write_steps(self, key: str, value: str, grant: AsyncGrant) -> Steps[bool]:
        parameters = [key, value, grant.name, grant.token, str(grant.grant_id)]
        [[written]] = yield in_schema(_WRITE, self._schema), parameters
        return bool(written)
