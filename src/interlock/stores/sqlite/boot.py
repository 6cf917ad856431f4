"""The id of the machine's current boot, so that times of its clock can be kept in a file.

All processes of one machine read the same `CLOCK_BOOTTIME`: it counts from the machine's start, also during suspension,
and cannot be set. If a wall clock is set, a lease expires early, or a dead holder keeps its lease for hours. As
`CLOCK_BOOTTIME` starts at zero with each boot, the id of the boot is kept beside every time. A lease of an earlier boot
is free, because no process outlives a restart.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path

from interlock.errors import ConfigurationError

_LINUX = Path("/proc/sys/kernel/random/boot_id")
_OFFSETS = Path("/proc/self/timens_offsets")


@cache
def boot_id() -> str:
    """Returns the id of this boot, which is the same for every process of this machine until the next boot."""
    _require_the_machines_clock()
    try:
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        return _LINUX.read_text().strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigurationError(
            "This system has no id for the machine's boot, which leases in SQLite need: use PostgreSQL here."
        ) from error


def _require_the_machines_clock() -> None:
    """Raises ConfigurationError in a time namespace: its clock is shifted, and other processes would misread it."""
    try:
        lines = [line.split() for line in _OFFSETS.read_text().splitlines()]
    except OSError:  # a system without such namespaces
        return
    if any(line[0] == "boottime" and line[1:] != ["0", "0"] for line in lines):
        raise ConfigurationError(
            "This process is in a time namespace with a clock of its own, and leases in SQLite need the machine's "
            "clock: start this process outside of a time namespace."
        )
