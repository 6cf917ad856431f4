"""Taking an instance away. After a crash anybody goes on: what is half removed is in every respect half made."""

from contextlib import suppress
from dataclasses import replace

from interlock.embedded import Cluster
from interlock.embedded.locks import exclusive
from interlock.errors import InstanceAbsent
from interlock.instances.drivers.local.directory import Directory
from interlock.instances.drivers.local.machine import Machine, absent
from interlock.instances.drivers.local.marker import read_marker
from interlock.instances.drivers.local.steps import did
from interlock.logs import events

log = events(__name__)


def remove(machine: Machine, id: str) -> None:
    """Return when its processes, its directory and everything in it are gone."""
    directory = machine.directory(id)

    def prepare() -> None:
        directory.check_ours()
        if not directory.path.exists():
            raise absent(id)

    with suppress(InstanceAbsent), exclusive(directory.lock, prepare):
        take_away(machine, directory)
        log.info("instance.removed", extra={"id": id})
        return
    _cluster(machine, directory).delete("immediate")  # somebody removed its directory, and its server may run on


def take_away(machine: Machine, directory: Directory) -> None:
    """The same for who holds its lock."""
    marker = read_marker(directory)
    if marker is not None and marker.is_whole:
        replace(marker, is_whole=False).write(directory)
        did(directory.id, "marked as not whole")
    # What is in the data does not matter any more, so nothing has to be written to them first.
    _cluster(machine, directory).delete("immediate")
    did(directory.id, "server and data removed")
    directory.clear()


def _cluster(machine: Machine, directory: Directory) -> Cluster:
    return Cluster(directory.cluster, run_as=machine.run_as, stop_timeout=machine.stop_timeout)
