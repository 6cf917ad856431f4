"""The guard of a grant, put into a transaction of the user's own.

Inside a transaction, one call: from then on the transaction commits only while the grant is current, and whoever gets
the lease next gets it after that COMMIT. `guard_v1` in the database decides; `interlock.connections` calls it on
connections of many kinds.
"""

from typing import Any

from interlock.connections import async_use, sync_use
from interlock.coordination.guards.call import Guarded, parameters, refused, statement
from interlock.coordination.guards.verdicts import judged

__all__ = ["Guarded", "guard", "guard_sync"]


async def guard(grant: Guarded, connection: Any) -> None:
    """`LeaseLost`: the grant is not current, roll back. `GuardRefused`: not on this connection as it stands."""
    grant.check()  # or a holder that no longer trusts its lease could go on keeping others out, guard by guard
    with judged(grant):
        use = async_use(connection)
        if why := await use.unfit():
            raise refused(grant, why)
        await use.fetch(statement(grant.schema), parameters(grant))


def guard_sync(grant: Guarded, connection: Any = None) -> None:
    """As `guard`, in the calling thread. An alias is one of Django's databases, and nothing is Django's default."""
    grant.check()
    with judged(grant):
        use = sync_use(connection)
        if why := use.unfit():
            raise refused(grant, why)
        use.fetch(statement(grant.schema), parameters(grant))
