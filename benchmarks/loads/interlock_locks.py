"""Interlock from threads."""

from benchmarks.loads.event_loops import loop_factory
from benchmarks.loads.lock_program import serve_locks
from benchmarks.loads.protocol import Settings
from interlock import Interlock, Lease


class HeldLease:
    """A lease with the same two calls as the peers' locks: they enter and leave its block."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def acquire(self) -> None:
        self._lease.__enter__()

    def release(self) -> None:
        self._lease.__exit__(None, None, None)


def main(settings: Settings) -> None:
    options = {"ttl": 30, "confirm_release": settings.get("confirm_release", True)}
    with Interlock(settings["url"], loop_factory=loop_factory(settings)) as locks:
        serve_locks(lambda name: HeldLease(locks.lease(name, **options)), settings)
