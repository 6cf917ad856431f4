"""The history of records: one log for all domains, with the actor of each event."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from interlock import user_connections
from interlock.aggregate.transactions import fetch, queries

INTERLOCK = "interlock"
"""The actor of everything that Interlock does by itself. Other actors are ``key:ID``."""


@dataclass(frozen=True)
class RecordEvent:
    """An event of a record.

    `orchestration` is the orchestration whose step wrote the event, or the requested orchestration.
    """

    kind: str
    recorded_at: datetime
    detail: str = ""
    actor: str = INTERLOCK
    orchestration: str | None = None


class RecordHistory:
    """The events of records of one kind. `subject` is a record's id."""

    def __init__(self, schema: str, kind: str) -> None:
        self._queries = queries("interlock.aggregate", schema)
        self._kind = kind

    async def note(
        self,
        connection: Any,
        subject: str,
        kind: str,
        at: datetime,
        detail: str = "",
        *,
        actor: str = INTERLOCK,
        orchestration: str | None = None,
    ) -> None:
        """Record an event. A repetition with the same kind and time changes nothing."""
        await self._fetch(connection, "note", subject, at, kind, detail, actor, orchestration)

    async def list(
        self, connection: Any, subject: str, limit: int = 100, *, after: tuple[datetime, str] | None = None
    ) -> list[RecordEvent]:
        """Returns the record's events, the newest first.

        `after` is the time and the kind of the last event of the previous page.
        """
        rows = await self._fetch(connection, "events", subject, limit, *(after or (None, None)))
        return [RecordEvent(*row) for row in rows]

    async def detail(self, connection: Any, subject: str, kind: str, at: datetime) -> str | None:
        """Returns the detail of one event; None if there is no such event."""
        rows = await self._fetch(connection, "event", subject, at, kind)
        return rows[0][0] if rows else None

    async def forget(self, connection: Any, subject: str, kind: str, at: datetime) -> None:
        await self._fetch(connection, "forget_event", subject, at, kind)

    async def _fetch(self, connection: Any, name: str, *args: Any) -> user_connections.Rows:
        return await fetch(connection, self._queries[name], self._kind, *args)


async def prune_events(connection: Any, schema: str, older_than: float, limit: int) -> int:
    """Delete events that are older than `older_than` seconds, of records of all kinds, at most `limit`.

    Returns the number of deleted rows.
    """
    statement = queries("interlock.aggregate", schema)["prune_events"]
    return len(await fetch(connection, statement, older_than, limit))
