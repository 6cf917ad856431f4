"""The removal of an instance. Any process continues it after a crash: half removed is the same as half created."""

from contextlib import suppress
from dataclasses import replace

from interlock.embedded import Cluster
from interlock.embedded.locks import exclusive
from interlock.errors import InstanceAbsent
from interlock.instances.drivers.local.directory import Directory, log_step
from interlock.instances.drivers.local.environment import LocalEnvironment, absent
from interlock.instances.drivers.local.marker import read_marker
from interlock.logs import events

log = events(__name__)


def remove(environment: LocalEnvironment, id: str) -> None:
    """Remove an instance, and return when its processes, its directory and everything in the directory are gone."""
    directory = environment.directory(id)

    def prepare() -> None:
        directory.check_owned()
        if not directory.path.exists():
            raise absent(id)

    with suppress(InstanceAbsent), exclusive(directory.lock, prepare):
        remove_locked(environment, directory)
        log.info("instance.removed", extra={"id": id})
        return
    _cluster(environment, directory).delete("immediate")  # its directory was removed, but its server may still run


def remove_locked(environment: LocalEnvironment, directory: Directory) -> None:
    """Remove an instance. The caller has to hold its lock."""
    marker = read_marker(directory)
    if marker is not None and marker.is_whole:
        replace(marker, is_whole=False).write(directory)
        log_step(directory.id, "marked as not whole")
    # The data are not needed any more, so the server need not write them to disk first.
    _cluster(environment, directory).delete("immediate")
    log_step(directory.id, "server and data removed")
    directory.clear()


def _cluster(environment: LocalEnvironment, directory: Directory) -> Cluster:
    return Cluster(directory.cluster, run_as=environment.run_as, stop_timeout=environment.stop_timeout)
