"""The lock that processes take, one after the other, before they write to the file.

SQLite waits for its own write lock by trying again at growing intervals, so a process that has just written and wants
to write again mostly wins, and others wait for seconds. The kernel wakes the processes that wait for an flock, and
releases the flock when its process dies. There are two flocks: a process that has the entry lock waits for the writer
lock, and then releases the entry lock. So a process that comes back at once is queued behind at least one other
process, however fast it is.

The kernel wakes the process that has waited longest, but the entry lock is free until that process runs, and a process
that comes back in that moment would overtake all waiters, time and again. So a process that had to wait the last
time, and finds the entry lock free, leaves it free for as long as waking takes.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from interlock.stores.sqlite.forks import detach_in_children

ENTRY, WRITER = "entry.lock", "writer.lock"

_WAKING = 0.0001


class WriterLock:
    """Blocks without a time limit, so only threads that may block can use it.

    Each `WriterLock` has its own descriptors, so threads of one process wait for each other too.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptors: tuple[int, int] | None = None
        self._waited = False
        detach_in_children(self)

    def __enter__(self) -> None:
        if self._descriptors is None:
            self._descriptors = _open_both(self._directory)
        entry, writer = self._descriptors
        at_once = _try_lock(entry)
        if at_once and self._waited:
            fcntl.flock(entry, fcntl.LOCK_UN)
            time.sleep(_WAKING)
            at_once = _try_lock(entry)
        if not at_once:
            fcntl.flock(entry, fcntl.LOCK_EX)
        try:
            self._waited = not (_try_lock(writer) and at_once)
            if self._waited:
                fcntl.flock(writer, fcntl.LOCK_EX)  # changes nothing if this process has it already
        finally:
            fcntl.flock(entry, fcntl.LOCK_UN)

    def __exit__(self, *exc_info: object) -> None:
        if self._descriptors is not None:
            fcntl.flock(self._descriptors[1], fcntl.LOCK_UN)

    def close(self) -> None:
        descriptors, self._descriptors = self._descriptors, None
        for descriptor in descriptors or ():
            os.close(descriptor)

    def detach(self) -> None:
        for descriptor in self._descriptors or ():  # kept until both are closed: an interrupt may end this
            with suppress(OSError):
                os.close(descriptor)
        self._descriptors = None


def _try_lock(descriptor: int) -> bool:
    """Returns True if the lock was free, and this descriptor holds it now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_both(directory: Path) -> tuple[int, int]:
    entry = _open(directory / ENTRY)
    try:
        return entry, _open(directory / WRITER)
    except BaseException:
        os.close(entry)
        raise


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    if os.fstat(descriptor).st_uid == os.geteuid():  # every user that may write the leases may take the lock
        os.fchmod(descriptor, path.parent.stat().st_mode & 0o666)
    return descriptor
