"""The two clocks that Interlock uses.

The database's clock decides *when something happened*. Interlock reads it with the SQL function ``now_v1()`` of its
schema, so all replicas see one clock. Tests move that clock by replacing the body of the function. The clock is not a
PostgreSQL setting, because any session could change a setting for itself.

This machine's clock, `boottime()`, decides *how long something may still be trusted*. It never steps, and where the
system has such a clock it also counts the time for which the machine was suspended.
"""

import re
import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def duration_of(text: str) -> float | None:
    """Return the seconds of a duration such as ``500ms``, ``90s``, ``5m``, ``1h`` or ``2d``. Returns None if the text
    is not a duration."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


def boottime() -> float:
    """Return the seconds on a clock that never steps. Processes of one machine can compare their values; other
    comparisons mean nothing."""
    return time.clock_gettime(_CLOCK)
