"""tooz's lock on PostgreSQL or etcd, depending on the URL."""

import os
import warnings

from tooz import coordination

from benchmarks.loads.lock_program import serve_locks
from benchmarks.loads.protocol import Settings


def main(settings: Settings) -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    coordinator = coordination.get_coordinator(settings["url"], f"member-{os.getpid()}".encode())
    coordinator.start()
    try:
        serve_locks(lambda name: coordinator.get_lock(name.encode()), settings)
    finally:
        coordinator.stop()
