"""Who holds which lease, since when, from where, and who waits: read from the database, without taking part.

Everything here is the database's view, by the database's clock. A `grant_id` is never read: who knows it can act as
the holder.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal

from interlock.stores.postgres import Queries, Session
from interlock.stores.postgres.session import Row

State = Literal["held", "broken", "free"]
"""``broken``: nobody holds it any more, and nobody gets it while its last holder may still trust it."""


@dataclass(frozen=True)
class Party:
    """A process at a lease, as it called itself; each part may be unknown."""

    name: str | None
    host: str | None
    pid: int | None


@dataclass(frozen=True)
class Holding:
    """A grant, as others may see it. Its last heartbeat was at `renewed_at`."""

    party: Party
    metadata: Any
    ttl: float
    acquired_at: datetime
    renewed_at: datetime


@dataclass(frozen=True)
class LeaseStatus:
    """`last` is the grant that holds it, or held it last; None if there never was one. Times are the database's.

    An `expires_at` of None means that it was released, or broken at once. `waiters` counts those who live; None: that
    cannot be told there.
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
        """The grant that holds it now."""
        return self.last if self.state == "held" else None

    def since(self, moment: datetime) -> float:
        """Seconds from that moment to the look at the lease."""
        return max(0.0, (self.seen_at - moment).total_seconds())


@dataclass(frozen=True)
class Waiter:
    """Since when is None where that is not kept."""

    party: Party
    enqueued_at: datetime | None
    waited: float | None


@dataclass(frozen=True)
class Guard:
    """A server process whose open transaction guards the lease. What is None the server does not tell our role."""

    pid: int
    role: str | None
    application: str | None
    state: str | None
    began_at: datetime | None
    open_for: float | None


@dataclass(frozen=True)
class Intervention:
    """`immediate`: others could have it at once. `terminated` are the server processes that were ended."""

    token: int
    immediate: bool
    terminated: tuple[int, ...]
    reason: str | None
    done_by: str
    done_at: datetime


@dataclass(frozen=True)
class LeaseDetails:
    """One lease with everybody at it. `intervention` is how its last grant was broken, if it was and we may know."""

    lease: LeaseStatus
    waiting: tuple[Waiter, ...] | None
    guards: tuple[Guard, ...]
    intervention: Intervention | None


@cache
def operations(schema: str) -> Queries:
    return Queries("interlock.coordination.operators", "operations.sql", schema)


async def read_leases(
    session: Session, schema: str, *, prefix: str = "", only_held: bool = False, only_waited: bool = False
) -> list[LeaseStatus]:
    """Leases by name, as far as they are known: a name that nobody has used for a week is forgotten."""
    rows = await session.fetch(operations(schema)["leases"], prefix, only_held, only_waited)
    return sorted(map(_lease, rows), key=lambda lease: lease.name)


async def read_lease(session: Session, schema: str, name: str) -> LeaseDetails | None:
    """None: nobody has used that name, or not for a week."""
    queries = operations(schema)
    row = await session.fetchrow(queries["lease"], name)
    if row is None:
        return None
    lease = _lease(row)
    return LeaseDetails(
        lease,
        tuple(
            Waiter(_party(row), row["enqueued_at"], row["waited"])
            for row in await session.fetch(queries["waiters"], name)
        ),
        tuple(Guard(**dict(row)) for row in await session.fetch(queries["guards"], name)),
        await _intervention(session, queries, lease),
    )


async def _intervention(session: Session, queries: Queries, lease: LeaseStatus) -> Intervention | None:
    if not await session.fetchval(queries["may_read_interventions"]):
        return None
    row = await session.fetchrow(queries["intervention"], lease.name)
    if row is None or row["token"] != lease.token:
        return None
    return Intervention(**{**dict(row), "terminated": tuple(row["terminated"])})


def _lease(row: Row) -> LeaseStatus:
    return LeaseStatus(
        name=row["name"],
        state="held" if row["held"] else "broken" if row["broken"] else "free",
        token=row["token"],
        last=_holding(row) if row["acquired_at"] else None,
        expires_at=row["expires_at"],
        remaining=row["remaining"],
        waiters=row["waiters"],
        seen_at=row["seen_at"],
    )


def _holding(row: Row) -> Holding:
    metadata = None if row["metadata"] is None else json.loads(row["metadata"])
    return Holding(_party(row), metadata, row["ttl"], row["acquired_at"], row["renewed_at"])


def _party(row: Row) -> Party:
    return Party(row["holder"], row["host"], row["pid"])
