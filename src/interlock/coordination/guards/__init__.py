"""The guard of a grant, which the user calls inside a transaction.

From that call on, the transaction commits only while the grant is current, and the next holder gets the lease only
after that COMMIT. In PostgreSQL the function `guard_v1` decides; `interlock.user_connections` calls it on connections
of many kinds. In a SQLite file one UPDATE decides.
"""

from interlock.coordination.guards.guarded import Guarded
from interlock.coordination.guards.postgres import guard, guard_sync

__all__ = ["Guarded", "guard", "guard_sync"]
