"""Read and break a database's leases as an operator, without taking part in them.

Each kind of database has a `LeaseOperator`. A value that it does not know is None; `NotSupported` names an action that
it does not have.
"""

from typing import Protocol

from interlock.coordination.operators.status import Broken, LeaseDetails, LeaseStatus
from interlock.coordination.operators.waits import Wait


class LeaseOperator(Protocol):
    async def leases(self, prefix: str, *, only_held: bool, only_waited: bool) -> list[LeaseStatus]:
        """Returns the leases that the database remembers, by name. A name is forgotten a week after its last use."""

    async def lease(self, name: str) -> LeaseDetails | None:
        """Returns None if the name was never used, or not for a week."""

    async def waits(self) -> list[Wait]:
        """Returns every wait, by lease, in the order of its queue."""

    async def break_lease(
        self, name: str, *, immediate: bool, terminate: bool, reason: str | None, by: str
    ) -> Broken | None:
        """Take the lease from its holder, which is notified at its next renewal. Returns None if it is not held.

        No other process gets the lease while that holder may still trust it, unless `immediate`. `terminate` ends the
        sessions whose open transactions guard it, also those of an earlier holder. `by` is the operator; where sessions
        have a role, that is recorded anyway.
        """
