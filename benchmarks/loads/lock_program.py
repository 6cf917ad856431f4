"""The orders of a program with its own kind of lock: cycles on separate names, or contention for one name."""

from collections.abc import Callable

from benchmarks.loads.contention import serve_contention
from benchmarks.loads.protocol import Settings
from benchmarks.loads.threads import Lock, serve_cycles


def serve_locks(lock_of: Callable[[str], Lock], settings: Settings) -> None:
    """With `workers`, so many threads run cycles, each on its own name. Otherwise they contend for `name`."""
    if "workers" in settings:
        serve_cycles(lambda worker: lock_of(f"cycle-{worker}"), settings["workers"])
    else:
        serve_contention(lock_of(settings["name"]))
