"""The creation of an instance, completely or not at all.

The holder of the directory's lock works on the instance alone. Each step creates something or finds it created, so any
process continues after a crash. The marker says that the instance is Interlock's and which port it has, and the last
step marks it as complete. An error, other than a crash, removes everything again, unless the instance was complete
before.

An instance gets one port of the range, permanently. A process that chooses a port holds the lock of the directory until
the port is written down, so two processes that serve one directory never choose the same port. The driver of another
directory, or any other program, may still take the port before the server starts. The server then refuses to start, and
a new instance gets another port.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from interlock.embedded import Binaries, Cluster
from interlock.embedded.accounts import ourselves
from interlock.embedded.files import make_reachable, write_whole
from interlock.embedded.lifecycle import free_port
from interlock.embedded.locks import exclusive
from interlock.errors import AddressInUse, ForeignResource, InterlockError, OutOfPorts
from interlock.instances.drivers.local.directory import Directory, log_step
from interlock.instances.drivers.local.environment import LocalEnvironment
from interlock.instances.drivers.local.marker import Marker, markers, read_marker
from interlock.instances.drivers.local.operations import bring_up
from interlock.instances.drivers.local.removal import remove_locked
from interlock.instances.drivers.local.superuser import make_database, make_owner, superuser
from interlock.instances.drivers.owner import new_password
from interlock.instances.drivers.port import Spec
from interlock.logs import events

log = events(__name__)


def provision(environment: LocalEnvironment, spec: Spec) -> None:
    """Create or confirm the instance, and return when it runs."""
    directory = environment.directory(spec.id)
    if _complete_marker(directory, spec) is None:
        environment.check(spec)
    with _locked(environment, directory):
        if marker := _complete_marker(directory, spec):
            bring_up(environment, directory, marker)
            return
        with _undone_on_error(environment, directory):
            _make(environment, directory, spec, environment.reachable(environment.binaries(spec.version)))
    log.info("instance.provisioned", extra={"id": spec.id, "instance": spec.name})


def _complete_marker(directory: Directory, spec: Spec) -> Marker | None:
    """Returns the marker of the requested instance, or None if the instance is incomplete.

    Raises ForeignResource if another instance uses the id.
    """
    directory.check_owned()
    marker = read_marker(directory)
    if marker is not None and marker.name != spec.name:
        raise ForeignResource(
            f"The id {spec.id} belongs to an instance named {marker.name!r}, not {spec.name!r}: use another id."
        )
    return marker if marker is not None and marker.is_whole else None


@contextmanager
def _locked(environment: LocalEnvironment, directory: Directory) -> Iterator[None]:
    def prepare() -> None:
        directory.check_owned()
        environment.make_root()
        make_reachable(directory.path, environment.account())

    with exclusive(directory.lock, prepare):
        log_step(directory.id, "directory made")
        yield


@contextmanager
def _undone_on_error(environment: LocalEnvironment, directory: Directory) -> Iterator[None]:
    try:
        yield
    except (InterlockError, OSError):
        try:
            remove_locked(environment, directory)
        except (InterlockError, OSError) as error:
            log.warning("instance.left_half_made", extra={"id": directory.id, "reason": str(error)})
        raise


def _make(environment: LocalEnvironment, directory: Directory, spec: Spec, binaries: Binaries) -> None:
    refused_ports: list[int] = []
    while True:
        marker = _written_marker(environment, directory, spec, binaries, refused_ports)
        _ensure_password(directory)
        cluster = environment.cluster(marker, binaries)
        cluster.create()
        log_step(spec.id, "data made")
        try:
            if not cluster.start():  # it runs already, for an earlier request that may have had other settings
                cluster.stop("fast")
                cluster.start()
        except AddressInUse:
            refused_ports.append(marker.port)
        else:
            break
    log_step(spec.id, "server started")
    asyncio.run(_make_owned(cluster, marker, directory.password.read_text()))
    replace(marker, is_whole=True).write(directory)
    log_step(spec.id, "marked as whole")


def _written_marker(
    environment: LocalEnvironment, directory: Directory, spec: Spec, binaries: Binaries, refused_ports: list[int]
) -> Marker:
    """Write the marker of this request, with a port of its own: the earlier port unless that is taken."""

    def write_down_another(port: int) -> Marker:
        environment.check_limit(spec.id)
        return write_down(port)

    def write_down(port: int) -> Marker:
        parameters = dict(spec.parameters)
        return Marker(spec.id, spec.name, port, binaries.version[0], parameters, spec.dns_name).write(directory)

    found = read_marker(directory)
    if found is not None and found.port not in refused_ports and found.port in environment.ports:
        marker = write_down(found.port)
    else:
        marker = choose_port(environment.root, environment.ports, refused_ports, write_down_another)
    log_step(spec.id, "marker written")
    return marker


def _ensure_password(directory: Directory) -> None:
    if not directory.password.exists():
        write_whole(directory.password, new_password().encode(), ourselves())
        log_step(directory.id, "password written")


async def _make_owned(cluster: Cluster, marker: Marker, password: str) -> None:
    async with await superuser(cluster) as session:
        await make_owner(session, marker.name, password)
        log_step(marker.id, "owner made")
        await make_database(session, marker.name)
        log_step(marker.id, "database made")


def choose_port(
    root: Path, ports: Sequence[int], avoid: Collection[int], write_down: Callable[[int], Marker]
) -> Marker:
    """Choose the first port that is free and not assigned, and return the marker that `write_down` wrote for it.

    Raises OutOfPorts if no port is left.
    """
    with exclusive(root / "ports.lock", lambda: None):
        known = {marker.port for marker in markers(root).values() if marker}
        for port in ports:
            if port not in known and port not in avoid and free_port(port):
                return write_down(port)
    raise OutOfPorts(
        f"All {len(ports)} ports from {ports[0]} to {ports[-1]} are taken: remove an instance, or give the driver a "
        "wider range."
    )
