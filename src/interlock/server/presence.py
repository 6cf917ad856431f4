"""A file in the data directory that says where this replica answers, for commands on this machine.

It is locked for as long as its process lives, however that ends. So whoever finds it unlocked knows that it is stale,
whatever the process ids are: in a container they are others than outside. Files come and go under a lock of their
directory, because a replica may have the name of one that died.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from interlock.embedded.locks import exclusive
from interlock.identity import replica_id

DIRECTORY = "servers"


@contextmanager
def present(data_dir: Path, url: str) -> Iterator[None]:
    """Inside it others find us; before it, what the dead have left is removed."""
    directory = data_dir / DIRECTORY
    path = directory / f"{replica_id().replace('/', '_')}.json"
    with _alone(directory):
        _tidy(directory)
        handle = _written(path, json.dumps({"url": url, "pid": os.getpid(), "replica": replica_id()}))
    try:
        yield
    finally:
        with _alone(directory), suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):  # and not a namesake's
                path.unlink()
        os.close(handle)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    with exclusive(directory / "lock", lambda: directory.mkdir(mode=0o700, exist_ok=True)):
        yield


def _written(path: Path, content: str) -> int:
    """Locked before it has its name."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, content.encode())
        fresh.replace(path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _tidy(directory: Path) -> None:
    for file in directory.glob("*.json"):
        with suppress(OSError):
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused: it lives
                file.unlink()
            finally:
                os.close(handle)
