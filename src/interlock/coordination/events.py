"""The events in the life of a lease: one small class for each event.

::

    def on_event(event: Event) -> None:
        match event:
            case Lost(name=name, why=why):
                page(f"{name} was lost: {why}")
            case NotAcquired(name=name, reason="timeout"):
                ...

    locks = AsyncInterlock(on_event=on_event)

`holder` is the replica that holds the lease, and `waiter` is the replica that wants it. `token` is the fencing token of
the grant that the event is about, or of the grant that blocks the waiter. Times are seconds. Later releases may add
kinds and fields, so a hook should ignore those that it does not know.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from interlock.coordination.lease.reasons import Loss as Loss
from interlock.coordination.lease.reasons import Reason as Reason


@dataclass(frozen=True, slots=True)
class Event:
    """The base class of all events. `kind` is a constant of the class; the event's name in the log is ``lease.``
    followed by the kind."""

    kind: ClassVar[str]

    def facts(self) -> dict[str, Any]:
        """Return the fields that are not None, for a log line. In a log line `name` means the logger, so the lease's
        name is called `lease`."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {_LOGGED_AS.get(name, name): _short(value) for name, value in found.items() if value is not None}


_LOGGED_AS = {"name": "lease"}


def _short(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class Acquired(Event):
    """The lease was acquired. `waited` is the time from the call to the grant; `attempts` is the number of requests in
    that time."""

    kind: ClassVar[str] = "acquired"
    name: str
    holder: str
    token: int
    waited: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """The lease is taken, and this replica waits in the queue. The event is sent again during the wait, with a greater
    `waited`."""

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
    """The lease was handed over to the next waiter before its ttl was over."""

    kind: ClassVar[str] = "handed_over"
    name: str
    holder: str
    token: int
    held: float


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """A held lease was lost. If `why` is ``broken``, `broken_by` is the operator that broke the lease, and `reason` is
    the operator's reason, if one was given."""

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
    """One statement renewed all leases that were due; `leases` is their number."""

    kind: ClassVar[str] = "renewed"
    holder: str
    leases: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RenewalFailed(Event):
    """A round of renewals failed. The leases are not lost yet: the next round may come in time."""

    kind: ClassVar[str] = "renewal_failed"
    holder: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Reconnected(Event):
    """A lost connection was opened again; `what` is its purpose."""

    kind: ClassVar[str] = "reconnected"
    replica: str
    what: str


KINDS: tuple[type[Event], ...] = (
    *(Acquired, Waiting, NotAcquired, Released, HandedOver, Lost),
    *(Renewed, RenewalFailed, Reconnected),
)
