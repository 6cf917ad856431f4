"""Processes of a cluster that its ``postmaster.pid`` does not tell of, or not yet.

A killed postmaster leaves server processes that end when they notice, and one that was started a moment ago has not
written anything. They are known by their working directory, which is always the data, and by their arguments. A system
without ``/proc`` shows neither: there, what the file tells is all that is known.
"""

import os
import signal
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from interlock.embedded.paths import ClusterPaths
from interlock.embedded.postmaster import live_postmaster
from interlock.embedded.processes import has_ended, wait_until
from interlock.errors import ClusterFailed


def end_orphans(paths: ClusterPaths, timeout: float) -> None:
    """Kill whatever still runs on the data, which nobody wants any more, and return when it is gone."""

    def is_over() -> bool:
        remaining = processes_of(paths)
        for pid in remaining:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not remaining

    if not wait_until(is_over, timeout=timeout):
        raise ClusterFailed(
            f"Processes {processes_of(paths)} of the cluster in {paths.root} do not end: see what they do."
        )


def processes_of(paths: ClusterPaths) -> list[int]:
    """The ids of all processes that run on the cluster's data."""
    known = live_postmaster(paths.data)
    found = {pid for pid in _pids() if _is_of(paths, pid) and not has_ended(pid)}
    return sorted(found | ({known.pid} if known else set()))


def has_no_process(paths: ClusterPaths) -> bool:
    """Whether no process runs on the cluster's data. False where that cannot be seen."""
    return bool(_pids()) and not processes_of(paths)


def _pids() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except FileNotFoundError:
        return []


def _is_of(paths: ClusterPaths, pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if (b"-D", os.fsencode(paths.data)) in pairwise(words):
            return True
        program, place = Path(f"/proc/{pid}/exe").readlink(), Path(f"/proc/{pid}/cwd").readlink()
    except OSError:  # ended by now, or somebody else's
        return False
    return program.name.startswith("postgres") and place.is_relative_to(paths.root)
