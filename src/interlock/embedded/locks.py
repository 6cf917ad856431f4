"""Locks between processes of this machine. A lock ends with the process that holds it, for any reason.

A process that was made by fork alone shares its parent's locks: such a process has to end, or start another program.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, prepare: Callable[[], None]) -> Iterator[int]:
    """Wait for other holders, in this process or another, and hold the lock. Yields the lock's file handle.

    `prepare` makes the directory of `path`, and makes it again if it was deleted during the wait. A program that
    inherits the handle holds the lock for as long as that program runs, even if this process ends.
    """
    handle = _locked(path, prepare)
    try:
        yield handle
    finally:
        os.close(handle)


def share(path: Path) -> int:
    """Returns a file handle that counts as one user of `path` until the handle is closed or this process ends."""
    handle = _open(path)
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def is_held(path: Path) -> bool:
    """True if a process holds `exclusive(path)`. Concurrent calls of this function do not count as holders."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def is_shared(path: Path) -> bool:
    """True if `path` still has a user, in this process or another."""
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _locked(path: Path, prepare: Callable[[], None]) -> int:
    while True:
        prepare()
        try:
            handle = _open(path)
        except FileNotFoundError:  # its directory was deleted since
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_still_at(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_still_at(path: Path, handle: int) -> bool:
    """False if the file was deleted, and perhaps created again, during the wait for its lock."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
