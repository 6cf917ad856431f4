"""The guard in PostgreSQL: it calls `guard_v1` once, and translates the errors of that call."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from interlock.coordination.guards.guarded import Guarded, lost, refused
from interlock.errors import ConnectionUnfit, InterlockError, PermissionMissing
from interlock.stores.postgres.queries import in_schema
from interlock.user_connections import async_adapter, code_of, sync_adapter

NOT_CURRENT, AFTER_SAVEPOINT = "IL001", "IL003"
NO_FUNCTION, NO_SCHEMA, NO_PRIVILEGE = "42883", "3F000", "42501"


async def guard(grant: Guarded, connection: Any) -> None:
    """Guard the open transaction. Raises `LeaseLost` if the grant is not current: then roll back. Raises `GuardRefused`
    if this connection cannot carry a guard in its present state."""
    grant.check()  # otherwise a holder that no longer trusts its lease could keep others out, guard by guard
    with _translated_errors(grant):
        adapter = async_adapter(connection)
        if why := await adapter.unfit_reason():
            raise refused(grant, why)
        await adapter.fetch(_statement(grant.schema), _parameters(grant))


def guard_sync(grant: Guarded, connection: Any = None) -> None:
    """Like `guard`, in the calling thread. `connection` may be a string, the alias of a Django database; None is
    Django's default database."""
    grant.check()
    with _translated_errors(grant):
        adapter = sync_adapter(connection)
        if why := adapter.unfit_reason():
            raise refused(grant, why)
        adapter.fetch(_statement(grant.schema), _parameters(grant))


@lru_cache
def _statement(schema: str) -> str:
    """Return the statement. Its casts are for drivers that guess types: some send every integer as 32 bits, some have
    no type for a UUID."""
    return in_schema(
        "SELECT interlock.guard_v1(CAST($1 AS text), CAST($2 AS bigint), CAST(CAST($3 AS text) AS uuid))", schema
    )


def _parameters(grant: Guarded) -> tuple[str, int, str]:
    return grant.name, grant.token, str(grant.grant_id)


@contextmanager
def _translated_errors(grant: Guarded) -> Iterator[None]:
    """Translate the errors that concern the lease. All other errors stay the driver's own, because the caller already
    handles them.

    A serialization failure (40001) is also left to the caller. A guard whose grant is lost ends that way if the
    transaction's snapshot is older than the loss; the next attempt of the transaction then gets `LeaseLost`.
    """
    try:
        yield
    except ConnectionUnfit as error:
        raise refused(grant, f"{error.why}, or call guard_v1 in SQL as docs/how-to/guard.md shows") from error
    except InterlockError:
        raise
    except Exception as error:
        if own_error := _own_error(grant, code_of(error)):
            raise own_error from error
        raise


def _own_error(grant: Guarded, code: str | None) -> InterlockError | None:
    if code == NOT_CURRENT:
        return lost(
            grant,
            " (If the lease is still held, this connection leads to another database than the one that keeps the "
            "lease.)",
        )
    if code == AFTER_SAVEPOINT:
        return refused(
            grant,
            "A rollback to the savepoint (the end of the nested transaction) would undo the guard: "
            "call the guard in the outermost transaction, before the nested one begins",
        )
    if code in (NO_FUNCTION, NO_SCHEMA):
        return refused(
            grant,
            f"The connection's database has no guard_v1 in the schema {grant.schema!r}: "
            "the guard works only in the database that keeps the lease, so pass a connection to that database",
        )
    if code == NO_PRIVILEGE:
        return PermissionMissing(
            f"The connection's role may not guard leases: run `interlock schema grant ROLE --for leases`. "
            f"(The lease {grant.name!r}, in the schema {grant.schema!r}.)"
        )
    return None
