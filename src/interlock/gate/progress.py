"""The rows that tell who migrates, since when, how far; and that tell a successor of an unclean end."""

import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from interlock import errors
from interlock.identity import replica_id
from interlock.stores.postgres import Queries, Session


def gate_queries(schema: str) -> Queries:
    return Queries("interlock.gate", "queries.sql", schema)


@dataclass(frozen=True)
class OpenRun:
    """A run that has begun and not ended: somebody migrates, or somebody died migrating."""

    fence: int
    replica: str
    host: str
    version: str | None
    step: str | None
    migration_role: str
    running_for: float
    silent_for: float

    def facts(self) -> dict[str, Any]:
        """For the log."""
        facts = {"holder": self.replica, "host": self.host, "for_seconds": round(self.running_for, 1)}
        return facts | ({"step": self.step} if self.step else {}) | ({"version": self.version} if self.version else {})


@dataclass(frozen=True)
class LastDone:
    fence: int
    version: str | None
    compatible_since: str | None


class Progress:
    """What one gate has recorded; as the lock's holder, also what we record of ourselves."""

    def __init__(self, session: Session, gate: str, schema: str) -> None:
        self._session = session
        self._gate = gate
        self._queries = gate_queries(schema)
        self.fence = 0

    async def open_run(self) -> OpenRun | None:
        row = await self._session.fetchrow(self._queries["open_run"], self._gate)
        return OpenRun(**{name: row[name] for name in OpenRun.__dataclass_fields__}) if row else None

    async def last_done(self) -> LastDone | None:
        row = await self._session.fetchrow(self._queries["last_done"], self._gate)
        return LastDone(**row) if row else None

    async def abandon_open_run(self) -> None:
        await self._session.execute(self._queries["abandon_open_run"], self._gate)

    async def begin(self, version: str | None, compatible_since: str | None, migration_role: str) -> None:
        self.fence = await self._session.fetchval(
            self._queries["begin_run"],
            self._gate,
            replica_id(),
            socket.gethostname(),
            version,
            compatible_since,
            migration_role,
        )

    async def heartbeat(self) -> None:
        """A beat that finds the table locked is left out: the lock itself does not hang on this row."""
        with suppress(errors.LockNotAvailable):
            await self._session.execute(self._queries["heartbeat"], self._gate, self.fence)

    async def report(self, step: str) -> None:
        await self._session.execute(self._queries["report_step"], self._gate, self.fence, step)

    async def protect(self, pid: int) -> None:
        await self._session.execute(self._queries["protect_session"], self._gate, self.fence, pid)

    async def end(self, outcome: str, error: str | None = None) -> None:
        await self._session.execute(self._queries["end_run"], self._gate, self.fence, outcome, error)
