"""Making an instance, whole or not at all.

Whoever holds the directory's lock is alone with it. Each step makes something or finds it made, so after a crash
anybody goes on where it stopped: the marker says that the instance is ours and which port it has, and, last of all,
that it is whole. An error, other than a crash, takes back what was made, unless the instance was whole before.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from interlock.embedded import Binaries, Cluster
from interlock.embedded.accounts import ourselves
from interlock.embedded.files import make_reachable, write_whole
from interlock.embedded.locks import exclusive
from interlock.errors import AddressInUse, ForeignResource, InterlockError
from interlock.instances.drivers.local.directory import Directory
from interlock.instances.drivers.local.machine import Machine
from interlock.instances.drivers.local.marker import Marker, read_marker
from interlock.instances.drivers.local.operations import bring_up, superuser
from interlock.instances.drivers.local.owner import make_database, make_owner
from interlock.instances.drivers.local.ports import choose_port
from interlock.instances.drivers.local.removal import take_away
from interlock.instances.drivers.local.steps import did
from interlock.instances.drivers.owner import new_password
from interlock.instances.drivers.port import Spec
from interlock.logs import events

log = events(__name__)


def provision(machine: Machine, spec: Spec) -> None:
    """Return when the instance runs."""
    directory = machine.directory(spec.id)
    if _whole(directory, spec) is None:
        machine.check(spec)
    with _alone(machine, directory):
        if marker := _whole(directory, spec):
            bring_up(machine, directory, marker)
            return
        with _nothing_half_done(machine, directory):
            _make(machine, directory, spec, machine.reachable(machine.binaries(spec.version)))
    log.info("instance.provisioned", extra={"id": spec.id, "instance": spec.name})


def _whole(directory: Directory, spec: Spec) -> Marker | None:
    """The marker of what was asked for, if it is made. Raises ForeignResource if that id is something else's."""
    directory.check_ours()
    marker = read_marker(directory)
    if marker is not None and marker.name != spec.name:
        raise ForeignResource(f"Instance {spec.id} is named {marker.name!r} and not {spec.name!r}: use another id.")
    return marker if marker is not None and marker.is_whole else None


@contextmanager
def _alone(machine: Machine, directory: Directory) -> Iterator[None]:
    def prepare() -> None:
        directory.check_ours()
        machine.make_root()
        make_reachable(directory.path, machine.account())

    with exclusive(directory.lock, prepare):
        did(directory.id, "directory made")
        yield


@contextmanager
def _nothing_half_done(machine: Machine, directory: Directory) -> Iterator[None]:
    try:
        yield
    except (InterlockError, OSError):
        try:
            take_away(machine, directory)
        except (InterlockError, OSError) as error:
            log.warning("instance.left_half_made", extra={"id": directory.id, "reason": str(error)})
        raise


def _make(machine: Machine, directory: Directory, spec: Spec, binaries: Binaries) -> None:
    taken: list[int] = []
    while True:
        marker = _marked(machine, directory, spec, binaries, taken)
        _ensure_password(directory)
        cluster = machine.cluster(marker, binaries)
        cluster.create()
        did(spec.id, "data made")
        try:
            if not cluster.start():  # for a request that came to nothing, and may have been another
                cluster.stop("fast")
                cluster.start()
        except AddressInUse:
            taken.append(marker.port)
        else:
            break
    did(spec.id, "server started")
    asyncio.run(_make_owned(cluster, marker, directory.password.read_text()))
    replace(marker, is_whole=True).write(directory)
    did(spec.id, "marked as whole")


def _marked(machine: Machine, directory: Directory, spec: Spec, binaries: Binaries, taken: list[int]) -> Marker:
    """The marker for this request, with a port of its own; the same port again unless that one is taken."""

    def write_down_another(port: int) -> Marker:
        machine.check_limit(spec.id)
        return write_down(port)

    def write_down(port: int) -> Marker:
        parameters = dict(spec.parameters)
        return Marker(spec.id, spec.name, port, binaries.version[0], parameters, spec.dns_name).write(directory)

    found = read_marker(directory)
    if found is not None and found.port not in taken and found.port in machine.ports:
        marker = write_down(found.port)
    else:
        marker = choose_port(machine.root, machine.ports, taken, write_down_another)
    did(spec.id, "marker written")
    return marker


def _ensure_password(directory: Directory) -> None:
    if not directory.password.exists():
        write_whole(directory.password, new_password().encode(), ourselves())
        did(directory.id, "password written")


async def _make_owned(cluster: Cluster, marker: Marker, password: str) -> None:
    async with await superuser(cluster) as session:
        await make_owner(session, marker.name, password)
        did(marker.id, "owner made")
        await make_database(session, marker.name)
        did(marker.id, "database made")
