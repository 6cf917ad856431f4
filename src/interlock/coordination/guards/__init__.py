"""The guard of a grant, put into a transaction of the user's own.

Inside a transaction, one call: from then on the transaction commits only while the grant is current, and whoever gets
the lease next gets it after that COMMIT. `guard_v1` in the database decides; `interlock.user_connections` calls it on
connections of many kinds.
"""

from typing import Any

from interlock.coordination.guards.call import Guarded, parameters, refused, statement
from interlock.coordination.guards.verdicts import judged
from interlock.user_connections import async_adapter, sync_adapter

__all__ = ["Guarded", "guard", "guard_sync"]


async def guard(grant: Guarded, connection: Any) -> None:
    """`LeaseLost`: the grant is not current, roll back. `GuardRefused`: not on this connection as it stands."""
    grant.check()  # or a holder that no longer trusts its lease could go on keeping others out, guard by guard
    with judged(grant):
        adapter = async_adapter(connection)
        if why := await adapter.unfit_reason():
            raise refused(grant, why)
        await adapter.fetch(statement(grant.schema), parameters(grant))


def guard_sync(grant: Guarded, connection: Any = None) -> None:
    """As `guard`, in the calling thread. An alias is one of Django's databases, and nothing is Django's default."""
    grant.check()
    with judged(grant):
        adapter = sync_adapter(connection)
        if why := adapter.unfit_reason():
            raise refused(grant, why)
        adapter.fetch(statement(grant.schema), parameters(grant))
