"""The status, history and outcome of orchestrations, read from their records. This module needs no engine."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from interlock.durable.database import Statements, fetch_rows, fetch_value
from interlock.durable.failures import ActivityFailure
from interlock.stores.postgres.session import Row

State = Literal["recorded", "running", "cancelling", "completed", "failed", "cancelled"]


@dataclass(frozen=True)
class OrchestrationStatus:
    """`code` and `error` are set if the orchestration failed or was cancelled; `result` is set if it completed."""

    id: str
    name: str
    version: str
    state: State
    input: Any
    result: Any
    code: str | None
    error: str | None
    recorded_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    execution: int
    cancel_reason: str | None

    @classmethod
    def of(cls, row: Row) -> "OrchestrationStatus":
        state, output = _state(row), row["output"] or row["engine_output"]
        failure = ActivityFailure.read(output or "") if state in ("failed", "cancelled") else None
        return cls(
            id=row["id"],
            name=row["name"],
            version=row["version"],
            state=state,
            input=json.loads(row["input"]),
            result=json.loads(output) if state == "completed" and output else None,
            code=failure.code if failure else None,
            error=failure.message if failure else None,
            recorded_at=row["recorded_at"],
            started_at=row["started_at"],
            finished_at=row["finished_at"],
            execution=row["current_execution_id"] or 0,
            cancel_reason=row["cancel_reason"],
        )


@dataclass(frozen=True)
class HistoryEvent:
    """One entry of the engine's history. `facts` depend on `kind`; `number` counts within the execution."""

    execution: int
    number: int
    at: datetime
    kind: str
    name: str | None
    facts: dict[str, Any]


def history_of(rows: Sequence[Row]) -> list[HistoryEvent]:
    return [_event(row) for row in rows]


_OWN = {"event_id", "instance_id", "execution_id", "timestamp_ms", "duroxide_version", "type", "name"}


def _event(row: Row) -> HistoryEvent:
    facts = json.loads(row["event_data"])
    at = datetime.fromtimestamp(facts["timestamp_ms"] / 1000, UTC)
    rest = {key: value for key, value in facts.items() if key not in _OWN and value is not None}
    return HistoryEvent(row["execution_id"], row["event_id"], at, facts["type"], facts.get("name"), rest)


def _state(row: Row) -> State:
    if outcome := row["outcome"]:
        known: State = outcome
        return known
    match row["status"]:
        case "Completed":
            return "completed"
        case "Failed":
            return "cancelled" if str(row["engine_output"]).startswith("canceled: ") else "failed"
        case _ if row["cancel_requested_at"]:
            return "cancelling"
        case None:
            return "recorded"
        case _:
            return "running"


@dataclass(frozen=True)
class OrchestrationOutcome:
    """`kind` is None until the orchestration has ended; `failure` is the reason if it failed or was cancelled."""

    kind: Literal["completed", "failed", "cancelled"] | None
    failure: ActivityFailure | None


async def read_outcome(connection: Any, schema: str, id: str) -> OrchestrationOutcome | None:  # noqa: A002
    """Read the outcome in the caller's transaction. Returns None if no such orchestration is recorded.

    The clean-up of an orchestration that has ended may still be running.
    """
    rows = await fetch_rows(connection, Statements(schema)["outcome"], id)
    if not rows:
        return None
    kind, output = rows[0]
    return OrchestrationOutcome(kind, ActivityFailure.read(output or "") if kind in ("failed", "cancelled") else None)


async def is_unfinished(connection: Any, schema: str, id: str) -> bool:  # noqa: A002
    """Return True if the orchestration, or its clean-up, has not ended yet."""
    return bool(await fetch_value(connection, Statements(schema)["unfinished"], id))
