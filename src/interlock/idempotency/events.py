"""A log that has each event once, even if it is reported often. Subject, kind and recorded time identify an event."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.errors import ConfigurationError, InterlockError
from interlock.idempotency.arguments import beside, checked_moment, column, quoted
from interlock.idempotency.decisions import Decision, Done, Replayed, decided
from interlock.user_connections import Steps, run_steps, run_steps_sync

_NO_CONSTRAINT = "42P10"


class EventLog:
    """A log in your table, with the names of its three columns. Run the SQL in `constraint`: it makes events unique."""

    def __init__(self, table: str, *, subject: str = "subject", kind: str = "kind", at: str = "recorded_at") -> None:
        self.table = table
        self._table = quoted(table)
        self._columns = (subject, kind, at)

    @property
    def constraint(self) -> str:
        name = beside(self.table, "once").rpartition(".")[2]
        return f"ALTER TABLE {self._table} ADD CONSTRAINT {name} UNIQUE ({self._unique()});"

    async def append(
        self, connection: Any, subject: Any, kind: str, at: datetime, details: Mapping[str, Any] | None = None
    ) -> Decision:
        """Add the event, unless the log has it. `at` is its recorded time; `details` are values for further columns."""
        return await run_steps(connection, self._append(subject, kind, at, details or {}), self._judge)

    def append_sync(
        self, connection: Any, subject: Any, kind: str, at: datetime, details: Mapping[str, Any] | None = None
    ) -> Decision:
        return run_steps_sync(connection, self._append(subject, kind, at, details or {}), self._judge)

    def _append(self, subject: Any, kind: str, at: datetime, details: Mapping[str, Any]) -> Steps[Decision]:
        values = dict(zip(self._columns, (subject, kind, checked_moment(at)), strict=True)) | dict(details)
        columns = ", ".join(map(column, values))
        places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        insert = (
            f"INSERT INTO {self._table} ({columns}) VALUES ({places}) "
            f"ON CONFLICT ({self._unique()}) DO NOTHING RETURNING 1"
        )
        rows = yield insert, list(values.values())
        return decided((Done if rows else Replayed)(f"append {kind}", self.table, subject, at))

    def _unique(self) -> str:
        return ", ".join(map(column, self._columns))

    def _judge(self, code: str | None) -> InterlockError | None:
        if code == _NO_CONSTRAINT:
            return ConfigurationError(f"No constraint keeps an event from being recorded twice: run {self.constraint}")
        return None
