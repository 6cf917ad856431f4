"""The rows of a gate's runs: migrator, start, progress. An open row shows a successor that its run ended uncleanly."""

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from interlock import errors
from interlock.gate.lock_session import LockSession
from interlock.gate.sessions import hold_shared
from interlock.identity import replica_id
from interlock.logs import events
from interlock.stores.postgres import Queries, Session

log = events(__name__)

T = TypeVar("T")


def gate_queries(schema: str) -> Queries:
    return Queries("interlock.gate", "queries.sql", schema)


@dataclass(frozen=True)
class OpenRun:
    """A run that has begun and not ended: its replica migrates, or died while it migrated."""

    fence: int
    replica: str
    host: str
    version: str | None
    step: str | None
    ttl: float
    running_for: float
    is_old: bool
    cut_by_server: bool

    def facts(self) -> dict[str, Any]:
        """Returns the run's facts as fields for the log."""
        facts = {"holder": self.replica, "host": self.host, "for_seconds": round(self.running_for, 1)}
        return facts | ({"step": self.step} if self.step else {}) | ({"version": self.version} if self.version else {})


async def retry_while_locked(statement: Callable[[], Awaitable[T]], check: Callable[[], None]) -> T:
    """Repeat a statement while another session locks its rows or tables. `check` raises an error to end this."""
    waiting = False
    while True:
        try:
            return await statement()
        except errors.LockNotAvailable as error:
            if not waiting:
                log.warning("gate.records_locked", extra={"why": str(error)})
            waiting = True
            check()


class GateRecords:
    """The recorded runs of one gate."""

    def __init__(self, session: Session, gate: str, schema: str) -> None:
        self.session = session
        self.gate = gate
        self.queries = gate_queries(schema)

    async def open_run(self) -> OpenRun | None:
        row = await self.session.fetchrow(self.queries["open_run"], self.gate)
        return OpenRun(**row) if row else None

    async def last_done(self) -> int | None:
        """Returns the fence of the newest run that succeeded."""
        fence: int | None = await self.session.fetchval(self.queries["last_done"], self.gate)
        return fence

    async def recorded_version(self) -> tuple[str | None, str | None]:
        """Returns the version of the last migration, and the oldest version that can work with it."""
        row = await self.session.fetchrow(self.queries["recorded_version"], self.gate)
        return (row["version"], row["compatible_since"]) if row else (None, None)


class Progress(GateRecords):
    """The holder's records of its own run, written on a session beside the lock's. `fence` is 0 until the run began."""

    fence = 0

    async def abandon(self, fence: int, lock: LockSession) -> None:
        await self.session.execute(self.queries["abandon_run"], self.gate, fence, lock.pid, *lock.name.lock)

    async def begin(
        self, lock: LockSession, *, version: str | None, compatible_since: str | None, migration_role: str
    ) -> None:
        """Record the start of the run. Raises GateLost if the lock's session does not have the lock any more."""
        fence = await self.session.fetchval(
            self.queries["begin_run"],
            self.gate,
            replica_id(),
            socket.gethostname(),
            version,
            compatible_since,
            timedelta(seconds=lock.timing.ttl),
            lock.pid,
            await self._oid_of(migration_role),
            *lock.name.lock,
        )
        if fence is None:
            raise errors.GateLost(
                f"The gate {self.gate} was lost before the migration began: migrate again.", gate=self.gate
            )
        await hold_shared(self.session, lock.name.alive(fence))
        self.fence = fence

    async def heartbeat(self) -> None:
        """Record a heartbeat. Raises ConnectionLost; only logs another failure, because the lock is still held."""
        try:
            await self.session.execute(self.queries["heartbeat"], self.gate, self.fence)
        except errors.ConnectionLost:
            raise
        except errors.StoreError as error:
            log.warning("gate.heartbeat_not_recorded", extra={"gate": self.gate, "why": str(error)})

    async def report(self, step: str) -> None:
        with suppress(errors.LockNotAvailable):
            await self.session.execute(self.queries["report_step"], self.gate, self.fence, step)

    async def protect(self, pid: int) -> None:
        await self.session.execute(self.queries["protect_session"], self.gate, self.fence, pid)

    async def end(self, outcome: str, error: str | None) -> None:
        """Record the end of the run. Raises GateLost if a successor has ended it already."""
        done = await self.session.execute(self.queries["end_run"], self.gate, self.fence, outcome, error)
        if done != "UPDATE 1":
            raise errors.GateLost(
                f"Another replica took over the gate {self.gate} while this one migrated: "
                "find out what both have done.",
                gate=self.gate,
            )

    async def _oid_of(self, role: str) -> int:
        oid: int | None = await self.session.fetchval("SELECT oid FROM pg_roles WHERE rolname = $1", role)
        if oid is None:
            raise errors.ConfigurationError(
                f"There is no role {role!r} for the migration: create it with CREATE ROLE, or name another role."
            )
        return oid
