"""What a lease's life tells whoever listens: one small class for each thing that can happen.

::

    def on_event(event: Event) -> None:
        match event:
            case Lost(name=name, why=why):
                page(f"{name} was lost: {why}")
            case NotAcquired(name=name, reason="timeout"):
                ...

    locks = AsyncInterlock(on_event=on_event)

`holder` is the replica that holds the lease, `waiter` the one that would like to; `token` is the fencing token of the
grant that the event is about, or that stands in the way. Times are seconds. Kinds and fields may be added, so a hook
passes over what it does not know.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from interlock.coordination.lease.reasons import Loss as Loss
from interlock.coordination.lease.reasons import Reason as Reason


@dataclass(frozen=True, slots=True)
class Event:
    """`kind` is a constant of the class; ``lease.`` and the kind is the event's name in the log."""

    kind: ClassVar[str]

    def facts(self) -> dict[str, Any]:
        """What is known of it, as fields of a log line; there a `name` is the logger's, and the lease has its own."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {_LOGGED_AS.get(name, name): _short(value) for name, value in found.items() if value is not None}


_LOGGED_AS = {"name": "lease"}


def _short(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class Acquired(Event):
    """`waited` counts from the call to the grant, over `attempts` statements that asked for it."""

    kind: ClassVar[str] = "acquired"
    name: str
    holder: str
    token: int
    waited: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """The lease is taken, and this replica has queued; told again while the wait goes on, with `waited` grown."""

    kind: ClassVar[str] = "waiting"
    name: str
    holder: str | None
    token: int | None
    waiter: str
    waited: float


@dataclass(frozen=True, slots=True)
class NotAcquired(Event):
    kind: ClassVar[str] = "not_acquired"
    name: str
    holder: str | None
    token: int | None
    waiter: str
    waited: float
    attempts: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Released(Event):
    kind: ClassVar[str] = "released"
    name: str
    holder: str
    token: int
    held: float


@dataclass(frozen=True, slots=True)
class HandedOver(Event):
    """Given to the next in the queue before its time."""

    kind: ClassVar[str] = "handed_over"
    name: str
    holder: str
    token: int
    held: float


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """With `why` ``broken``: `broken_by` says which operator broke the lease, and `reason` why, if one was given."""

    kind: ClassVar[str] = "lost"
    name: str
    holder: str
    token: int
    held: float
    why: Loss
    broken_by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    """A round that renewed all leases that were due, `leases` of them, in one statement."""

    kind: ClassVar[str] = "renewed"
    holder: str
    leases: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RenewalFailed(Event):
    """A round that broke. The leases are not lost yet: the next round may come in time."""

    kind: ClassVar[str] = "renewal_failed"
    holder: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Reconnected(Event):
    """A connection that had ended is there again; `what` says what it is for."""

    kind: ClassVar[str] = "reconnected"
    replica: str
    what: str


KINDS: tuple[type[Event], ...] = (
    *(Acquired, Waiting, NotAcquired, Released, HandedOver, Lost),
    *(Renewed, RenewalFailed, Reconnected),
)
