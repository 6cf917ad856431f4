"""Interlock from threads."""

from benchmarks.loads.choice import serve_locks
from benchmarks.loads.event_loops import loop_factory
from benchmarks.loads.talk import Settings
from interlock import Interlock, Lease


class HeldLease:
    """A lease with the two calls of its peers: the begin and the end of a block."""

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
