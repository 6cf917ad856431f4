"""The result of an operation: done, replayed (done before), or refused."""

from dataclasses import dataclass
from typing import Any, TypeVar

from interlock.logs import events

log = events("interlock.idempotency")


@dataclass(frozen=True)
class Decision:
    """`what` is the operation, `on` the table, `key` the row, `value` the row's state, time or owner after it."""

    what: str
    on: str
    key: Any
    value: Any


@dataclass(frozen=True)
class Done(Decision):
    """This call carried out the operation."""


@dataclass(frozen=True)
class Replayed(Decision):
    """An earlier call carried out the operation; this call changed nothing."""


@dataclass(frozen=True)
class Refused(Decision):
    """The operation is not allowed, for this `reason`; nothing was changed."""

    reason: str


D = TypeVar("D", bound=Decision)


def decided(decision: D) -> D:
    """Log the decision, also for a caller that ignores it."""
    facts = {"what": decision.what, "on": decision.on, "key": str(decision.key), "value": str(decision.value)}
    if isinstance(decision, Refused):
        facts["reason"] = decision.reason
    log.info(f"idempotency.{type(decision).__name__.lower()}", extra=facts)
    return decision
