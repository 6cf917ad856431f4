"""A lease that several readers may hold together, for callers without an event loop."""

from typing import TYPE_CHECKING

from interlock.coordination.lease.lease import LeaseSettings
from interlock.coordination.sync.lease import Lease

if TYPE_CHECKING:
    from interlock.coordination.sync.root import Interlock


class Shared:
    """``with catalog.read(): …`` and ``with catalog.write(): …``; see `AsyncShared`."""

    def __init__(self, locks: "Interlock", reading: LeaseSettings, writing: LeaseSettings) -> None:
        self._locks = locks
        self._reading = reading
        self._writing = writing

    @property
    def name(self) -> str:
        return self._writing.name

    def read(self) -> Lease:
        """Return a lease that as many readers may hold at once as there are slots."""
        return Lease(self._locks, self._reading)

    def write(self) -> Lease:
        """Return a lease that one writer holds alone."""
        return Lease(self._locks, self._writing)
