"""Locks between processes of this machine that die with the process that holds them, however it dies.

A process made by a bare fork shares its parent's locks: it should end, or start another program.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, prepare: Callable[[], None]) -> Iterator[int]:
    """Wait until nobody else is in here, in this process or another.

    `prepare` sees to the directory of `path`, again if that was deleted while we waited. A program that is given the
    handle keeps the others out for as long as it runs, whatever becomes of us.
    """
    handle = _locked(path, prepare)
    try:
        yield handle
    finally:
        os.close(handle)


def share(path: Path) -> int:
    """A handle that counts as one user of `path` until it is closed or its process ends."""
    handle = _open(path)
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def is_held(path: Path) -> bool:
    """Whether somebody is in `exclusive(path)`. Those who ask at the same time are not taken for one."""
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
    """Whether any user of `path` is left, in this process or another."""
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
    """Whether the file was not deleted, and perhaps made anew, while we waited for its lock."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
