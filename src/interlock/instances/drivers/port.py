"""The port of drivers: the operations on an instance in the system that it runs on.

Every operation may be repeated: it creates or confirms. A crash between two operations leaks nothing.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from interlock.tls.certificate import Certificate

Observed = Literal["absent", "starting", "running", "stopped", "broken"]


@dataclass(frozen=True, slots=True)
class Spec:
    """The wanted instance. Everything that a driver creates carries `id`, the record's id, which is never reused."""

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
    """The address for clients. `ca` is the certificate (PEM) that verifies the server's TLS."""

    host: str
    port: int
    user: str
    database: str
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """The observed state.

    `detail` is one sentence for operators: why the instance is broken, or what it still waits for.
    """

    state: Observed
    endpoint: Endpoint | None = None
    version: str | None = None
    detail: str = ""


class Driver(Protocol):
    """An operation returns when the system has accepted the request; `observe` reports its progress.

    All operations but `check`, `provision`, `observe`, `remove` and `ids` raise `InstanceAbsent` if the instance does
    not exist.
    """

    name: str
    can_resize: bool
    """True if the driver supports `resize`."""
    can_use_certificate: bool
    """True if the driver supports `use_certificate`."""

    async def check(self, spec: Spec) -> None:
        """Raise the errors of a request before anything is created: version, size, parameters, binaries."""

    async def provision(self, spec: Spec) -> None:
        """Create or confirm everything, in the state running.

        Existing objects that belong to another owner are refused (`ForeignResource`).
        """

    async def observe(self, id: str) -> Observation:
        """Returns the observed state.

        `starting` is also the state while the instance stops. `broken` means that the instance is incomplete, and
        neither starting nor stopping.
        """
        ...

    async def start(self, id: str) -> None: ...

    async def stop(self, id: str) -> None: ...

    async def remove(self, id: str) -> None:
        """Remove everything. `observe` returns absent once all of it is gone (processes, directories, volumes)."""

    async def password(self, id: str) -> str:
        """Returns the owner's password, which the driver generates and stores (in a private file, or in a Secret).

        The password is stored nowhere else.
        """
        ...

    async def reset_password(self, id: str) -> None: ...

    async def set_parameters(self, id: str, parameters: Mapping[str, str]) -> Literal["reloaded", "restart needed"]:
        """Replace all parameters. A parameter that is not in `parameters` gets its default."""
        ...

    async def resize(self, id: str, storage_bytes: int) -> None:
        """Grow the storage. Raises `NotSupported` if the driver cannot resize."""

    async def use_certificate(self, id: str, certificate: Certificate | None) -> None:
        """Serve this certificate from now on; None means the instance's own certificate. Open connections stay open.

        Returns when new clients see the certificate. Raises `BadSpec`, before anything is changed, for a certificate
        that clients could not verify, and `NotSupported` if the driver cannot change certificates.
        """

    def logs(self, id: str, *, lines: int = 100, follow: bool = False) -> AsyncIterator[str]: ...

    async def ids(self) -> Mapping[str, str]:
        """Returns all instances of Interlock in the system, complete or not: id → name.

        The drift check uses the result to find orphans.

        The name is empty if a crash came before the name was written.
        """
        ...
