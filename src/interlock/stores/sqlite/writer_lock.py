"""Who wants to write goes through here, one after the other.

SQLite's own way of waiting for its write lock is to look again in growing steps, so whoever has just written and wants
to write again mostly wins: some processes wait for seconds. The kernel wakes those who wait for an flock, and frees it
when a process dies. There are two gates. Whoever has passed the first waits for the second, and then opens the first
again: so somebody who comes back at once stands behind at least one who waited, however quick it is.

The kernel wakes who has waited longest; but until that one runs, the first gate is open, and somebody who comes back
just then would go before all who wait, time and again. So whoever had to wait the last time, and finds the gate open,
leaves it open for as long as waking takes.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from interlock.stores.sqlite.forks import left_alone_in_children

_WAKING = 0.0001


class WriterLock:
    """Blocks without end: use it in a thread that may. Each has descriptors of its own, so threads wait too."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._gates: tuple[int, int] | None = None
        self._waited = False
        left_alone_in_children(self)

    def __enter__(self) -> None:
        if self._gates is None:
            self._gates = _both_opened(self._directory)
        gate, turnstile = self._gates
        at_once = _passed(gate)
        if at_once and self._waited:
            fcntl.flock(gate, fcntl.LOCK_UN)
            time.sleep(_WAKING)
            at_once = _passed(gate)
        if not at_once:
            fcntl.flock(gate, fcntl.LOCK_EX)
        try:
            self._waited = not (_passed(turnstile) and at_once)
            if self._waited:
                fcntl.flock(turnstile, fcntl.LOCK_EX)  # once more, if it was open: that changes nothing
        finally:
            fcntl.flock(gate, fcntl.LOCK_UN)

    def __exit__(self, *exc_info: object) -> None:
        if self._gates is not None:
            fcntl.flock(self._gates[1], fcntl.LOCK_UN)

    def close(self) -> None:
        gates, self._gates = self._gates, None
        for descriptor in gates or ():
            os.close(descriptor)

    def let_go(self) -> None:
        for descriptor in self._gates or ():  # noted until both are closed: an interrupt may have ended this before
            with suppress(OSError):
                os.close(descriptor)
        self._gates = None


def _passed(gate: int) -> bool:
    """Whether it was open; then we have it."""
    try:
        fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _both_opened(directory: Path) -> tuple[int, int]:
    gate = _opened(directory / "gate")
    try:
        return gate, _opened(directory / "turnstile")
    except BaseException:
        os.close(gate)
        raise


def _opened(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    if os.fstat(descriptor).st_uid == os.geteuid():  # whoever may write the leases may go through
        os.fchmod(descriptor, path.parent.stat().st_mode & 0o666)
    return descriptor
