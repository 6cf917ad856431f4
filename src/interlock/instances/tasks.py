"""What orchestrations and activities of instances are given and give. All of it is kept in histories: no password."""

from dataclasses import dataclass

from interlock.aggregate.record import Failure, Task
from interlock.instances.drivers.port import Observed

VANISHED = Failure("vanished", "Nothing of it is there any more, and nobody deleted it: delete it to free its names.")


@dataclass(frozen=True, kw_only=True)
class SetParameters(Task):
    """All that are wanted."""

    parameters: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Resize(Task):
    storage_bytes: int


@dataclass(frozen=True, kw_only=True)
class Restoration(Task):
    """`backup` is what the instance holds then."""

    backup: str


@dataclass(frozen=True)
class ObservedState:
    state: Observed
    detail: str = ""
    timeout: float = 600.0
    """Seconds in all that what was asked for is waited for."""


@dataclass(frozen=True)
class ProbeResult:
    """Of one that runs. `trouble`: why nobody gets through to it yet; empty if it answers. `took`: seconds."""

    error: str = ""
    code: str = ""
    seconds: float = 0.0
    timeout: float = 600.0


@dataclass(frozen=True)
class WatchHealth:
    """`failures` of the checks in a row up to now."""

    instance: str
    watcher: str
    failures: int = 0


@dataclass(frozen=True)
class WatchResult:
    """`over`: it is not to be watched any more, or not by this one. `pause`: seconds until the next check."""

    ended: bool
    failures: int
    pause: float


@dataclass(frozen=True)
class Orphan:
    """What a driver has, by its id, and no record wants."""

    driver: str
    instance: str
