"""The outcome of an orchestration, read from its record in the caller's transaction, without an engine."""

from dataclasses import dataclass
from typing import Any, Literal

from interlock.durable.caller_transaction import ask, ask_rows
from interlock.durable.database import Statements
from interlock.durable.failures import ActivityFailure


@dataclass(frozen=True)
class OrchestrationOutcome:
    """`kind` is None until the orchestration has ended; `failure` is the reason if it failed or was cancelled."""

    kind: Literal["completed", "failed", "cancelled"] | None
    failure: ActivityFailure | None


async def read_outcome(connection: Any, schema: str, id: str) -> OrchestrationOutcome | None:  # noqa: A002
    """None: no such orchestration was recorded, or it is forgotten. Its clean-up may still have to end."""
    rows = await ask_rows(connection, Statements(schema)["outcome"], id)
    if not rows:
        return None
    kind, output = rows[0]
    return OrchestrationOutcome(kind, ActivityFailure.read(output or "") if kind in ("failed", "cancelled") else None)


async def is_unfinished(connection: Any, schema: str, id: str) -> bool:  # noqa: A002
    """Whether the orchestration, or its clean-up, has still to end."""
    return bool(await ask(connection, Statements(schema)["unfinished"], id))
