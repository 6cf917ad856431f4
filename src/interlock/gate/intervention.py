"""An operator's interventions at a gate. Each intervention is recorded with its operator, action and reason."""

from typing import Literal

from interlock import errors
from interlock.gate.progress import gate_queries
from interlock.gate.status import GateStatus
from interlock.stores.postgres import Session


async def unlock(session: Session, own_schema: str, status: GateStatus, *, reason: str | None, by: str) -> int:
    """End the session that holds the gate, so that the migrator notices and stops. Returns that session's server pid.

    The next replica at the gate still makes sure that nothing of the migrator is left.
    """
    if status.holder is None:
        raise errors.ConfigurationError(f"The gate {status.gate} is not held: there is nothing to unlock.")
    subject = f"server process {status.holder.pid} ({status.holder.name or 'of another role'})"
    record = gate_queries(own_schema)["record_intervention"]
    await session.execute(record, status.gate, "unlock", subject, reason, by)
    await session.fetchval("SELECT pg_terminate_backend($1)", status.holder.pid)
    return status.holder.pid


async def settle(
    session: Session,
    own_schema: str,
    gate: str,
    step: str,
    answer: Literal["done", "again"],
    *,
    reason: str | None,
    by: str,
) -> None:
    """Mark a half-done step as done, or allow it to run again."""
    queries = gate_queries(own_schema)
    async with session.transaction():
        if await session.fetchval(queries[f"settle_step_{answer}"], gate, step) is None:
            raise errors.ConfigurationError(
                f"The gate {gate} has no half-done step {step!r}, so nothing was changed: see `interlock gate steps`."
            )
        await session.execute(queries["record_intervention"], gate, f"step {answer}", step, reason, by)
