"""The state of leases as an operator sees it: holders, waiters, guards, interventions.

Everything in this module is the database's view, by the database's clock. A `grant_id` is never read, because a process
that knows the grant_id can act as the holder.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

State = Literal["held", "broken", "free"]
"""``broken``: the lease is not held any more, but the database grants it to no process yet, because its last holder may
still trust it."""


@dataclass(frozen=True)
class Party:
    """A process that holds a lease or waits for it, as the process describes itself. A field that is None is
    unknown."""

    name: str | None
    host: str | None
    pid: int | None


@dataclass(frozen=True)
class Holding:
    """A grant without its secret grant_id. `renewed_at` is the time of its last heartbeat."""

    party: Party
    metadata: Any
    ttl: float
    acquired_at: datetime
    renewed_at: datetime


@dataclass(frozen=True)
class LeaseStatus:
    """The state of one lease; all times are the database's. `last` is the current or the most recent grant; None if the
    lease was never granted.

    `expires_at` is None after a release or an immediate break. `waiters` counts the live waiters; it is None where the
    database does not know them.
    """

    name: str
    state: State
    token: int
    last: Holding | None
    expires_at: datetime | None
    remaining: float
    waiters: int | None
    seen_at: datetime

    @property
    def holding(self) -> Holding | None:
        """The current grant; None if the lease is not held."""
        return self.last if self.state == "held" else None

    def since(self, moment: datetime) -> float:
        """Returns the seconds from `moment` until the time at which the lease was read."""
        return max(0.0, (self.seen_at - moment).total_seconds())


@dataclass(frozen=True)
class Waiter:
    """A process that waits for the lease. The times are None where the database does not record them."""

    party: Party
    enqueued_at: datetime | None
    waited: float | None


@dataclass(frozen=True)
class Guard:
    """A server process whose open transaction guards the lease. A field that is None is hidden from the operator's
    role."""

    pid: int
    role: str | None
    application: str | None
    state: str | None
    began_at: datetime | None
    open_for: float | None


@dataclass(frozen=True)
class Intervention:
    """A break of the lease by an operator. `immediate`: other processes could acquire the lease at once. `terminated`:
    the server processes that were ended."""

    token: int
    immediate: bool
    terminated: tuple[int, ...]
    reason: str | None
    done_by: str
    done_at: datetime


@dataclass(frozen=True)
class LeaseDetails:
    """One lease with its waiters and guards. `intervention` says how an operator broke the lease's last grant; None if
    no operator broke it, or if this operator's role may not read the intervention."""

    lease: LeaseStatus
    waiting: tuple[Waiter, ...] | None
    guards: tuple[Guard, ...]
    intervention: Intervention | None


@dataclass(frozen=True)
class Broken:
    """A lease that was just broken, and the process that held it. No process can acquire the lease for `remaining`
    seconds.

    `terminated` has the server processes that were ended.
    """

    name: str
    token: int
    party: Party
    remaining: float
    terminated: tuple[int, ...]
