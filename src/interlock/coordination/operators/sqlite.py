"""Reads and breaks the leases of a SQLite file as an operator. The file does not record when a waiter began to wait."""

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from interlock.coordination.operators.status import (
    Broken,
    Holding,
    Intervention,
    LeaseDetails,
    LeaseStatus,
    Party,
    Waiter,
)
from interlock.coordination.operators.waits import Wait
from interlock.errors import NotSupported
from interlock.stores.sqlite.operator import LeaseSnapshot, SqliteOperations, WaiterSnapshot


@dataclass(frozen=True)
class SqliteOperator:
    """A `LeaseOperator` for SQLite."""

    store: SqliteOperations

    async def leases(self, prefix: str, *, only_held: bool, only_waited: bool) -> list[LeaseStatus]:
        found = _statuses(*await self.store.snapshot())
        return [
            lease
            for lease in found
            if lease.name.startswith(prefix)
            and (lease.state == "held" or not only_held)
            and (lease.waiters or not only_waited)
        ]

    async def lease(self, name: str) -> LeaseDetails | None:
        seen, waiters = await self.store.snapshot()
        lease = next((lease for lease in _statuses(seen, waiters) if lease.name == name), None)
        if lease is None:
            return None
        waiting = tuple(Waiter(_party(waiter), None, None) for waiter in waiters if waiter.name == name)
        return LeaseDetails(lease, waiting, (), await self._intervention(lease))

    async def waits(self) -> list[Wait]:
        seen, waiters = await self.store.snapshot()
        holders = {lease.name: _party(lease) for lease in seen if lease.has_grant and lease.remaining > 0}
        return [Wait(waiter.name, _party(waiter), holders.get(waiter.name), None) for waiter in waiters]

    async def break_lease(
        self, name: str, *, immediate: bool, terminate: bool, reason: str | None, by: str
    ) -> Broken | None:
        if terminate:
            raise NotSupported(
                "--terminate ends sessions of PostgreSQL, and a SQLite file has no sessions: leave --terminate out."
            )
        seen = await self.store.break_lease(name, immediate=immediate, reason=reason, by=by)
        return seen and Broken(name, seen.token, _party(seen), 0.0 if immediate else seen.remaining, ())

    async def _intervention(self, lease: LeaseStatus) -> Intervention | None:
        found = await self.store.intervention(lease.name)
        if found is None or found.token != lease.token:
            return None
        return Intervention(found.token, found.immediate, (), found.reason, found.done_by, _moment(found.done_at))


def _statuses(seen: Iterable[LeaseSnapshot], waiters: Iterable[WaiterSnapshot]) -> list[LeaseStatus]:
    counts, now = Counter(waiter.name for waiter in waiters), _moment(time.time())
    return [
        LeaseStatus(
            name=lease.name,
            state="free" if lease.remaining <= 0 else "held" if lease.has_grant else "broken",
            token=lease.token,
            last=_holding(lease),
            expires_at=None if lease.expires_at is None else _moment(lease.expires_at),
            remaining=lease.remaining,
            waiters=counts[lease.name],
            seen_at=now,
        )
        for lease in seen
    ]


def _holding(lease: LeaseSnapshot) -> Holding | None:
    if lease.acquired_at is None:
        return None
    metadata = None if lease.metadata is None else json.loads(lease.metadata)
    return Holding(_party(lease), metadata, lease.ttl, _moment(lease.acquired_at), _moment(lease.used_at))


def _party(of: LeaseSnapshot | WaiterSnapshot) -> Party:
    return Party(of.holder, of.host, of.pid)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
