"""What a driver does for an instance.

Every verb may be repeated: it creates or confirms, and a crash between two of them leaks nothing.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from interlock.tls.certificate import Certificate

Observed = Literal["absent", "starting", "running", "stopped", "broken"]


@dataclass(frozen=True, slots=True)
class Spec:
    """What is wanted. `id` is the record's and never used again: whatever a driver makes carries it."""

    id: str
    name: str
    version: str | None = None
    """The major version; None is the driver's newest."""
    storage_bytes: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    dns_name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients connect. `ca` is the certificate (PEM) that its TLS can be checked with."""

    host: str
    port: int
    user: str
    database: str
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What there really is. `detail` is one sentence for people: why it is broken, or what it still waits for."""

    state: Observed
    endpoint: Endpoint | None = None
    version: str | None = None
    detail: str = ""


class Driver(Protocol):
    """Verbs ask, and return when the system has taken the request; `look` tells how far it is.

    All but `check`, `provision`, `look`, `remove` and `ids` raise `InstanceAbsent` where there is no such instance.
    """

    name: str
    can_resize: bool
    """Whether `resize` is of any use."""
    can_use_certificate: bool
    """Whether `use_certificate` is."""

    async def check(self, spec: Spec) -> None:
        """Raises what is wrong with the request before anything is made: version, size, parameters, binaries."""

    async def provision(self, spec: Spec) -> None:
        """Create or confirm everything, in the state running.

        What is there but belongs to another is refused (`ForeignResource`).
        """

    async def observe(self, id: str) -> Observation:
        """What is on its way, up or down, is seen as starting; what is not whole, and not on its way, as broken."""
        ...

    async def start(self, id: str) -> None: ...

    async def stop(self, id: str) -> None: ...

    async def remove(self, id: str) -> None:
        """Ask that everything goes; `look` says absent once it is really gone (processes, directories, volumes)."""

    async def password(self, id: str) -> str:
        """Of the owner. Drivers make it and keep it (a file only the user can read; a Secret): it is nowhere else."""
        ...

    async def reset_password(self, id: str) -> None: ...

    async def set_parameters(self, id: str, parameters: Mapping[str, str]) -> Literal["reloaded", "restart needed"]:
        """`parameters` are all that are wanted: what is not among them goes back to its default."""
        ...

    async def resize(self, id: str, storage_bytes: int) -> None:
        """Raises `NotSupported` where the driver cannot."""

    async def use_certificate(self, id: str, certificate: Certificate | None) -> None:
        """Serve this one from now on; None is the one that the instance has of itself. Nobody's connection ends.

        Return when new clients see it. Raises `BadSpec`, before anything is changed, for one that they could not check,
        and `NotSupported` where the driver cannot.
        """

    def logs(self, id: str, *, lines: int = 100, follow: bool = False) -> AsyncIterator[str]: ...

    async def ids(self) -> Mapping[str, str]:
        """Everything of ours that there is, whole or not: id → name. For finding what no record knows.

        The name is empty of what a crash left before that was written down.
        """
        ...
