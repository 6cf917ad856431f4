"""Reads and breaks the leases of a DynamoDB table as an operator.

The times are those that the holders wrote, by their own clocks. If a lease's time is over by these times, it is
reported as free; a process that wants the lease still has to watch it for its ttl. The waiters are not known, and free
leases are not listed.
"""

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from interlock.coordination.operators.status import Broken, Holding, Intervention, LeaseDetails, LeaseStatus, Party
from interlock.coordination.operators.waits import Wait
from interlock.errors import NotSupported
from interlock.stores.dynamodb.operator import DynamoOperations
from interlock.stores.dynamodb.row import Row

_NO_QUEUE = "DynamoDB keeps no queue, so Interlock does not know the waiters"


@dataclass(frozen=True)
class DynamoOperator:
    """A `LeaseOperator` for DynamoDB."""

    store: DynamoOperations

    async def leases(self, prefix: str, *, only_held: bool, only_waited: bool) -> list[LeaseStatus]:
        if only_waited:
            raise NotSupported(f"{_NO_QUEUE}: leave --waited out.")
        found = [_status(row) for row in await self.store.rows(prefix)]
        return [lease for lease in found if lease.state == "held" or not only_held]

    async def lease(self, name: str) -> LeaseDetails | None:
        row = await self.store.row(name)
        return None if row is None else LeaseDetails(_status(row), None, (), _intervention(row))

    async def waits(self) -> list[Wait]:
        raise NotSupported(f"{_NO_QUEUE}: see the holders with `interlock lease list`.")

    async def break_lease(
        self, name: str, *, immediate: bool, terminate: bool, reason: str | None, by: str
    ) -> Broken | None:
        if terminate:
            raise NotSupported(
                "--terminate ends sessions of PostgreSQL, and DynamoDB has no sessions: leave --terminate out."
            )
        row = await self.store.break_lease(name, immediate=immediate, reason=reason, by=by)
        if row is None:
            return None
        return Broken(name, row.token, _party(row), 0.0 if immediate else row.ttl, ())


def _status(row: Row) -> LeaseStatus:
    now = time.time()
    remaining = max(0.0, row.expires_at - now) if row.owner_id else 0.0
    return LeaseStatus(
        name=row.name,
        state="free" if not remaining else "broken" if row.is_broken else "held",
        token=row.token,
        last=_holding(row),
        expires_at=_moment(row.expires_at) if row.owner_id else None,
        remaining=remaining,
        waiters=None,
        seen_at=_moment(now),
    )


def _holding(row: Row) -> Holding:
    metadata = None if row.metadata is None else json.loads(row.metadata)
    return Holding(_party(row), metadata, row.ttl, _moment(row.acquired_at), _moment(row.used_at))


def _intervention(row: Row) -> Intervention | None:
    broken = row.broken
    return broken and Intervention(
        row.token, row.was_freed_at_once, (), broken.reason, broken.done_by, _moment(broken.done_at)
    )


def _party(row: Row) -> Party:
    return Party(row.holder, row.host, row.pid)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
