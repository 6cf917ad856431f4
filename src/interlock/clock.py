"""The two clocks that Interlock goes by.

*When something happened* is told by the database, through the SQL function ``now_v1()`` of Interlock's schema: all
replicas see one clock. Tests move it by giving that function another body. There is no setting for it, because a
setting is something that any session could change for itself.

*How long something may still be trusted* is told by this machine, through `boottime()`: it never steps, and where the
system has such a clock it also counts the time that the machine was suspended.
"""

import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds on a clock that never steps; comparable between the processes of one machine, and with nothing else."""
    return time.clock_gettime(_CLOCK)
