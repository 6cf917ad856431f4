"""What an operator sees of a database's leases, and may do to them, without taking part.

Every kind of database has it, as far as it can tell: what it does not know is None, and what it cannot do it says.
"""

from typing import Protocol

from interlock.coordination.operators.intervention import Broken
from interlock.coordination.operators.status import LeaseDetails, LeaseStatus
from interlock.coordination.operators.waits import Wait


class LeaseOperator(Protocol):
    async def leases(self, prefix: str, *, only_held: bool, only_waited: bool) -> list[LeaseStatus]:
        """By name."""

    async def lease(self, name: str) -> LeaseDetails | None:
        """None: nobody has used that name, or not for a week."""

    async def waits(self) -> list[Wait]:
        """By lease, in the order of its queue."""

    async def break_lease(
        self, name: str, *, immediate: bool, terminate: bool, reason: str | None, by: str
    ) -> Broken | None:
        """Break it, as `break_lease` does."""
