"""Reads and breaks the leases of a PostgreSQL database as an operator."""

import json
from dataclasses import dataclass
from functools import cache

from interlock import errors
from interlock.coordination.operators.status import (
    Broken,
    Guard,
    Holding,
    Intervention,
    LeaseDetails,
    LeaseStatus,
    Party,
    Waiter,
)
from interlock.coordination.operators.waits import Wait
from interlock.stores.postgres import Queries, Session
from interlock.stores.postgres.session import Row


@cache
def operations(schema: str) -> Queries:
    return Queries("interlock.coordination.operators", "operations.sql", schema)


@dataclass(frozen=True)
class PostgresOperator:
    """A `LeaseOperator` for PostgreSQL."""

    session: Session
    schema: str

    async def leases(self, prefix: str, *, only_held: bool, only_waited: bool) -> list[LeaseStatus]:
        rows = await self.session.fetch(self._queries["leases"], prefix, only_held, only_waited)
        return sorted(map(_status, rows), key=lambda lease: lease.name)

    async def lease(self, name: str) -> LeaseDetails | None:
        row = await self.session.fetchrow(self._queries["lease"], name)
        if row is None:
            return None
        lease = _status(row)
        return LeaseDetails(
            lease,
            tuple(
                Waiter(_party(row), row["enqueued_at"], row["waited"])
                for row in await self.session.fetch(self._queries["waiters"], name)
            ),
            tuple(Guard(**dict(row)) for row in await self.session.fetch(self._queries["guards"], name)),
            await self._intervention(lease),
        )

    async def waits(self) -> list[Wait]:
        return [
            Wait(
                row["name"],
                Party(row["waiter"], row["waiter_host"], row["waiter_pid"]),
                _party(row) if row["held"] else None,
                row["waited"],
            )
            for row in await self.session.fetch(self._queries["waits"])
        ]

    async def break_lease(
        self, name: str, *, immediate: bool, terminate: bool, reason: str | None, by: str
    ) -> Broken | None:
        try:
            row = await self.session.fetchrow(self._queries["break"], name, immediate, terminate, reason, by)
        except errors.PermissionMissing as error:
            raise await self._missing_permission() from error
        if row is None:
            return None
        return Broken(name, row["token"], _party(row), row["remaining"], tuple(row["terminated"]))

    @property
    def _queries(self) -> Queries:
        return operations(self.schema)

    async def _intervention(self, lease: LeaseStatus) -> Intervention | None:
        if not await self.session.fetchval(self._queries["may_read_interventions"]):
            return None
        row = await self.session.fetchrow(self._queries["intervention"], lease.name)
        if row is None or row["token"] != lease.token:
            return None
        return Intervention(**{**dict(row), "terminated": tuple(row["terminated"])})

    async def _missing_permission(self) -> errors.PermissionMissing:
        if await self.session.fetchval(self._queries["may_break"], self.schema):
            return errors.PermissionMissing(
                f"The owner of the schema {self.schema!r} may not end other roles' sessions, so nothing was changed: "
                "let a superuser GRANT pg_signal_backend to that owner, or leave --terminate out."
            )
        role = await self.session.fetchval("SELECT current_user")
        return errors.PermissionMissing(
            f"The role {role!r} may not break leases: let an owner run "
            f"`interlock schema grant {role} --for operations`."
        )


def _status(row: Row) -> LeaseStatus:
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
