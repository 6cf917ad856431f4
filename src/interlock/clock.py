"""The two clocks that Interlock uses.

*When something happened* is decided by the database's clock, through the SQL function ``now_v1()`` of Interlock's
schema: all replicas see one clock. Tests move it by replacing the body of that function. It is no PostgreSQL setting,
because any session could change a setting for itself.

*How long something may still be trusted* is decided by this machine's clock, `boottime()`: it never steps, and where
the system has such a clock it also counts the time that the machine was suspended.
"""

import re
import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def duration_of(text: str) -> float | None:
    """Return the seconds of a duration such as ``500ms``, ``90s``, ``5m``, ``1h`` or ``2d``; None if it is not one."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


def boottime() -> float:
    """Seconds on a clock that never steps; comparable between the processes of one machine, and with nothing else."""
    return time.clock_gettime(_CLOCK)
