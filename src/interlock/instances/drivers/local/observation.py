"""The observation of an instance. It takes no lock, waits for nothing, and changes nothing."""

from interlock.embedded import Cluster
from interlock.embedded.address import LOOPBACKS
from interlock.embedded.locks import is_held
from interlock.instances.drivers.local.directory import Directory
from interlock.instances.drivers.local.environment import LocalEnvironment
from interlock.instances.drivers.local.marker import Marker, markers, read_marker
from interlock.instances.drivers.port import Endpoint, Observation

_ENDED = "The instance's server ended unexpectedly: start the instance again."
_GONE = "The instance's data are gone: restore the data, or remove the instance."
_INTERRUPTED = "The creation or removal of the instance was interrupted: provision the instance again, or remove it."
_MIDWAY = "It is being created or removed."
_STOPPING = "It is stopping."


def observe(environment: LocalEnvironment, id: str) -> Observation:
    directory = environment.directory(id)
    if not directory.path.exists():
        return Observation("absent")
    if not directory.is_own():
        return Observation("absent", detail=f"{directory.path} exists and was not created by Interlock: move it away.")
    marker = read_marker(directory)
    if marker is None or not marker.is_whole:
        return _unfinished(directory)
    return _of(environment.cluster(marker), marker)


def ids(environment: LocalEnvironment) -> dict[str, str]:
    """Returns the names of all instances, by id. A name is empty if a crash came before it was written."""
    found = markers(environment.root)
    return {each: marker.name if marker else "" for each, marker in found.items()}


def _unfinished(directory: Directory) -> Observation:
    if is_held(directory.lock):
        return Observation("starting", detail=_MIDWAY)
    return Observation("broken", detail=_INTERRUPTED) if directory.path.exists() else Observation("absent")


def _of(cluster: Cluster, marker: Marker) -> Observation:
    version = str(marker.major)
    endpoint = _endpoint(cluster, marker)
    status = cluster.status()
    if status in ("ready", "standby"):
        return Observation("running", endpoint, version)
    if status is not None:
        return Observation("starting", endpoint, version, _STOPPING if status == "stopping" else "")
    if cluster.major_version() is None or endpoint is None:
        return Observation("broken", None, version, _GONE)
    return Observation("stopped", endpoint, version, _ENDED if cluster.ended_uncleanly() else "")


def _endpoint(cluster: Cluster, marker: Marker) -> Endpoint | None:
    try:
        authority = cluster.certificate_file.read_text()
    except FileNotFoundError:
        return None
    return Endpoint(LOOPBACKS[0], marker.port, marker.name, marker.name, authority or None)
