"""Reads and breaks a database's leases as an operator, who neither holds leases nor waits for them.

Each kind of database has a `LeaseOperator`. A value that the database does not know is None. An action that the
database does not have raises `NotSupported`, which names the action.
"""

from typing import Protocol

from interlock.coordination.operators.status import Broken, LeaseDetails, LeaseStatus
from interlock.coordination.operators.waits import Wait


class LeaseOperator(Protocol):
    async def leases(self, prefix: str, *, only_held: bool, only_waited: bool) -> list[LeaseStatus]:
        """Returns the leases that the database remembers, ordered by name. The database forgets a name a week after its
        last use."""

    async def lease(self, name: str) -> LeaseDetails | None:
        """Returns the lease with its waiters and guards, or None if its name was not used in the last week."""

    async def waits(self) -> list[Wait]:
        """Returns every wait, ordered by lease; the waits for one lease are in the order of its queue."""

    async def break_lease(
        self, name: str, *, immediate: bool, terminate: bool, reason: str | None, by: str
    ) -> Broken | None:
        """Take the lease from its holder, which is notified at its next renewal. Returns None if the lease is not held.

        No other process gets the lease while the old holder may still trust it, unless `immediate` is set. `terminate`
        ends the sessions whose open transactions guard the lease, including those of an earlier holder. `by` is the
        operator's name; where sessions have a role, the role is recorded in any case.
        """
