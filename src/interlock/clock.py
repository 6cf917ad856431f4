"""The two clocks that Interlock goes by.

*When something happened* is told by the database, through the SQL function ``now_v1()`` of Interlock's schema: all
replicas see one clock. Tests move it by giving that function another body. There is no setting for it, because a
setting is something that any session could change for itself.

*How long something may still be trusted* is told by this machine, through `boottime()`: it never steps, and where the
system has such a clock it also counts the time that the machine was suspended.
"""

import re
import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def duration_of(text: str) -> float | None:
    """Seconds of a duration as it is written: ``500ms``, ``90s``, ``5m``, ``1h``, ``2d``. None: it is not one."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


def boottime() -> float:
    """Seconds on a clock that never steps; comparable between the processes of one machine, and with nothing else."""
    return time.clock_gettime(_CLOCK)
