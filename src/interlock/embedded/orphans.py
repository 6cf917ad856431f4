"""Finds and ends processes of a cluster that its ``postmaster.pid`` does not name, or not yet.

A killed postmaster leaves server processes, which end when they notice its death. A postmaster that was started a
moment ago has not written the file yet. Such processes are identified by their working directory, which is always the
cluster's data, and by their arguments. On a system without ``/proc``, only the process in the file is found.
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
    """Kill all processes that run on the data, and return when they are gone. Only for data that are deleted next."""

    def is_over() -> bool:
        remaining = processes_of(paths)
        for pid in remaining:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not remaining

    if not wait_until(is_over, timeout=timeout):
        raise ClusterFailed(
            f"Processes {processes_of(paths)} of the cluster in {paths.root} do not end: look for the reason with ps."
        )


def processes_of(paths: ClusterPaths) -> list[int]:
    """Returns the ids of all processes that run on the cluster's data."""
    known = live_postmaster(paths.data)
    found = {pid for pid in _pids() if _is_of(paths, pid) and not has_ended(pid)}
    return sorted(found | ({known.pid} if known else set()))


def has_no_process(paths: ClusterPaths) -> bool:
    """True if no process runs on the cluster's data. False also on a system that does not show processes."""
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
    except OSError:  # ended by now, or another user's
        return False
    return program.name.startswith("postgres") and place.is_relative_to(paths.root)
