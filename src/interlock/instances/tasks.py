"""Inputs and results of orchestrations and activities. Histories keep them, so they hold no password."""

from dataclasses import dataclass

from interlock.aggregate.record import Failure, Task
from interlock.instances.drivers.port import Observed

VANISHED = Failure(
    "vanished", "Nothing of the instance exists any more, but it was not deleted: delete it to free its names."
)


@dataclass(frozen=True, kw_only=True)
class SetParameters(Task):
    """`parameters` replace all parameters of the instance."""

    parameters: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Resize(Task):
    storage_bytes: int


@dataclass(frozen=True, kw_only=True)
class Restoration(Task):
    """`backup` is the id of the backup whose contents the instance gets."""

    backup: str


@dataclass(frozen=True)
class ObservedState:
    state: Observed
    detail: str = ""
    timeout: float = 600.0
    """Seconds within which the requested state has to be observed."""


@dataclass(frozen=True)
class ProbeResult:
    """The result of a connection to a running instance.

    `error` is empty if the instance answered; otherwise `seconds` is the time until the error.
    """

    error: str = ""
    code: str = ""
    seconds: float = 0.0
    timeout: float = 600.0


@dataclass(frozen=True)
class WatchHealth:
    """`failures` counts the consecutive failed checks so far."""

    instance: str
    watcher: str
    failures: int = 0


@dataclass(frozen=True)
class WatchResult:
    """`ended` is True if this watcher has to end. `pause` is the number of seconds until the next check."""

    ended: bool
    failures: int
    pause: float


@dataclass(frozen=True)
class Orphan:
    """`instance` is the id of an instance that a driver has and no record wants."""

    driver: str
    instance: str
