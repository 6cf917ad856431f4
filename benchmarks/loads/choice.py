"""What a program with a lock of its own is asked for: cycles on names of its own, or one name under contention."""

from collections.abc import Callable

from benchmarks.loads.contention import serve_contention
from benchmarks.loads.talk import Settings
from benchmarks.loads.threads import Lock, serve_cycles


def serve_locks(lock_of: Callable[[str], Lock], settings: Settings) -> None:
    """`workers` in the settings: that many threads, each on its own name. Otherwise `name` is contended for."""
    if "workers" in settings:
        serve_cycles(lambda worker: lock_of(f"cycle-{worker}"), settings["workers"])
    else:
        serve_contention(lock_of(settings["name"]))
