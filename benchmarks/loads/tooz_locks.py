"""tooz: its lock on PostgreSQL or etcd, as the URL says."""

import os
import warnings

from tooz import coordination

from benchmarks.loads.choice import serve_locks
from benchmarks.loads.talk import Settings


def main(settings: Settings) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    coordinator = coordination.get_coordinator(settings["url"], f"member-{os.getpid()}".encode())
    coordinator.start()
    try:
        serve_locks(lambda name: coordinator.get_lock(name.encode()), settings)
    finally:
        coordinator.stop()
