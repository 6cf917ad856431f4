"""What the database's answer to a guard means."""

from collections.abc import Iterator
from contextlib import contextmanager

from interlock.coordination.guards.call import Guarded, refused
from interlock.errors import ConnectionUnfit, InterlockError, LeaseLost, PermissionMissing
from interlock.user_connections import code_of

NOT_CURRENT, AFTER_SAVEPOINT = "IL001", "IL003"
NO_FUNCTION, NO_SCHEMA, NO_PRIVILEGE = "42883", "3F000", "42501"


@contextmanager
def judged(grant: Guarded) -> Iterator[None]:
    """Errors that have nothing to do with the lease stay the driver's own: the user knows how to handle them.

    So does 40001, a serialization failure: with a snapshot older than the loss, that is how a stale guard ends. Whoever
    tries such a transaction again is then told `LeaseLost`.
    """
    try:
        yield
    except ConnectionUnfit as error:
        raise refused(grant, f"{error.why}, or call guard_v1 in SQL as docs/how-to/guard.md shows") from error
    except InterlockError:
        raise
    except Exception as error:
        if verdict := _verdict(grant, code_of(error)):
            raise verdict from error
        raise


def _lost(grant: Guarded) -> LeaseLost:
    return LeaseLost(
        f"The lease {grant.name!r} is not held by the grant with token {grant.token} any more: roll back and stop. "
        "(If it was, then this connection leads to another database than the lease's.)",
        name=grant.name,
        token=grant.token,
    )


def _verdict(grant: Guarded, code: str | None) -> InterlockError | None:
    if code == NOT_CURRENT:
        return _lost(grant)
    if code == AFTER_SAVEPOINT:
        return refused(
            grant,
            "A rollback to the savepoint (the end of the nested transaction) would undo the guard: "
            "call it in the outermost transaction, before the nested one begins",
        )
    if code in (NO_FUNCTION, NO_SCHEMA):
        return refused(
            grant,
            f"The connection's database has no guard_v1 in the schema {grant.schema!r}: "
            "the guard works only in the database that keeps the lease, so pass a connection to that one",
        )
    if code == NO_PRIVILEGE:
        return PermissionMissing(
            f"The connection's role may not guard leases: run `interlock schema grant ROLE --for leases`. "
            f"(The lease {grant.name!r}, in the schema {grant.schema!r}.)"
        )
    return None
