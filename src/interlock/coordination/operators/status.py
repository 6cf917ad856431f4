"""The state of leases as an operator sees it: holders, waiters, guards, interventions.

Everything here is the database's view, by the database's clock. A `grant_id` is never read: a process that knows it can
act as the holder.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

State = Literal["held", "broken", "free"]
"""``broken``: the lease is not held any more, but not granted either while its last holder may still trust it."""


@dataclass(frozen=True)
class Party:
    """A process that holds a lease or waits for it, by its own account. None is unknown."""

    name: str | None
    host: str | None
    pid: int | None


@dataclass(frozen=True)
class Holding:
    """A grant without its secret. Its last heartbeat was at `renewed_at`."""

    party: Party
    metadata: Any
    ttl: float
    acquired_at: datetime
    renewed_at: datetime


@dataclass(frozen=True)
class LeaseStatus:
    """`last` is the current or the most recent grant; None if there never was one. Times are the database's.

    `expires_at` is None after a release or an immediate break. `waiters` counts live waiters; it is None where the
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
        """The current grant."""
        return self.last if self.state == "held" else None

    def since(self, moment: datetime) -> float:
        """Returns the seconds from that moment until the lease was read."""
        return max(0.0, (self.seen_at - moment).total_seconds())


@dataclass(frozen=True)
class Waiter:
    """The times are None where the database does not keep them."""

    party: Party
    enqueued_at: datetime | None
    waited: float | None


@dataclass(frozen=True)
class Guard:
    """A server process whose open transaction guards the lease. None is hidden from the operator's role."""

    pid: int
    role: str | None
    application: str | None
    state: str | None
    began_at: datetime | None
    open_for: float | None


@dataclass(frozen=True)
class Intervention:
    """A break of the lease. `immediate`: others could acquire it at once. `terminated`: the server processes ended."""

    token: int
    immediate: bool
    terminated: tuple[int, ...]
    reason: str | None
    done_by: str
    done_at: datetime


@dataclass(frozen=True)
class LeaseDetails:
    """One lease with its waiters and guards. `intervention` says how its last grant was broken; None if it was not, or
    if the operator's role may not read that."""

    lease: LeaseStatus
    waiting: tuple[Waiter, ...] | None
    guards: tuple[Guard, ...]
    intervention: Intervention | None


@dataclass(frozen=True)
class Broken:
    """A lease that was just broken, and its holder until then. It cannot be acquired for `remaining` seconds.

    `terminated` are the server processes that were ended.
    """

    name: str
    token: int
    party: Party
    remaining: float
    terminated: tuple[int, ...]
