"""What orchestrations and activities of instances are given and give. All of it is kept in histories: no password."""

from dataclasses import dataclass

from interlock.instances.drivers.port import Observed
from interlock.instances.model import Event


@dataclass(frozen=True)
class Task:
    """One orchestration's work on one instance. `after`: another's, which has to have ended first."""

    instance: str
    orchestration: str
    after: str | None = None
    parameters: dict[str, str] | None = None
    """All that are wanted, of a task that sets them."""
    storage_bytes: int | None = None
    backup: str | None = None
    """What is made, checked, removed, or restored from."""


@dataclass(frozen=True)
class Seen:
    state: Observed
    detail: str = ""
    patience: float = 600.0
    """Seconds in all that what was asked for is waited for."""


@dataclass(frozen=True)
class Heard:
    """Of one that runs. `trouble`: why nobody gets through to it yet; empty if it answers. `took`: seconds."""

    trouble: str = ""
    code: str = ""
    took: float = 0.0
    patience: float = 600.0


@dataclass(frozen=True)
class Failed:
    """How an orchestration ended."""

    code: str
    message: str


@dataclass(frozen=True)
class Move:
    """An event of the instance's states. `ends`: nothing is left to do then; `freed`: its names go too."""

    task: Task
    event: Event | None
    ends: bool = True
    freed: bool = False
    failed: Failed | None = None


@dataclass(frozen=True)
class Watch:
    """`failures` of the checks in a row up to now."""

    instance: str
    watcher: str
    failures: int = 0


@dataclass(frozen=True)
class Watched:
    """`over`: it is not to be watched any more, or not by this one. `pause`: seconds until the next check."""

    over: bool
    failures: int
    pause: float


@dataclass(frozen=True)
class Orphan:
    """What a driver has, by its id, and no record wants."""

    driver: str
    instance: str
