"""What became of an operation: it was done, it had been done before, or it may not be done."""

from dataclasses import dataclass
from typing import Any, TypeVar

from interlock.logs import events

log = events("interlock.idempotency")


@dataclass(frozen=True)
class Decision:
    """`what` is the operation, `on` the table, `key` the row, `value` what is there now: a state, a time, an owner."""

    what: str
    on: str
    key: Any
    value: Any


@dataclass(frozen=True)
class Done(Decision):
    """It was done, by this call."""


@dataclass(frozen=True)
class Replayed(Decision):
    """It had been done before, and nothing was changed."""


@dataclass(frozen=True)
class Refused(Decision):
    """It may not be done, for this reason, and nothing was changed."""

    reason: str


D = TypeVar("D", bound=Decision)


def decided(decision: D) -> D:
    """Every decision is logged, whether or not its caller looks at it."""
    facts = {"what": decision.what, "on": decision.on, "key": str(decision.key), "value": str(decision.value)}
    if isinstance(decision, Refused):
        facts["reason"] = decision.reason
    log.info(f"idempotency.{type(decision).__name__.lower()}", extra=facts)
    return decision
