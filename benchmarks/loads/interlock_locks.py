"""Interlock from threads."""

from benchmarks.loads.choice import serve_locks
from benchmarks.loads.talk import Settings
from interlock import Grant, Interlock, Lease


class HeldLease:
    """A lease with the two calls of its peers."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._grant: Grant | None = None

    def acquire(self) -> None:
        self._grant = self._lease.acquire()

    def release(self) -> None:
        assert self._grant is not None
        self._grant.release()


def main(settings: Settings) -> None:
    with Interlock(settings["url"]) as locks:
        serve_locks(lambda name: HeldLease(locks.lease(name, ttl=30)), settings)
