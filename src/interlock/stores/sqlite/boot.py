"""Which start of the machine this is, so that times of its clock can be kept in a file.

All processes of one machine read the same `CLOCK_BOOTTIME`: it counts from the machine's start, through suspension too,
and nobody can set it. Where the wall clock would let a lease expire early, or keep a dead holder's for hours, because
somebody set it, this one cannot. Its price is that it begins anew with each start, so the number of that start is kept
beside every time. That is worth more than it costs: no process outlives a restart, so what was held before one is free.
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
    """The same for every process of this machine until it is started again."""
    _require_the_machines_clock()
    try:
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        return _LINUX.read_text().strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigurationError(
            "This system does not tell one start of the machine from the next, which leases in SQLite need: "
            "use PostgreSQL here."
        ) from error


def _require_the_machines_clock() -> None:
    """In a time namespace the clock is moved, so our times would mean something else to the other processes."""
    try:
        lines = [line.split() for line in _OFFSETS.read_text().splitlines()]
    except OSError:  # a system without such namespaces
        return
    if any(line[0] == "boottime" and line[1:] != ["0", "0"] for line in lines):
        raise ConfigurationError(
            "This process is in a time namespace with a clock of its own, and leases in SQLite need the machine's: "
            "start it without one."
        )
