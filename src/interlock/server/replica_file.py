"""A file in the data directory with the URL of this replica, by which commands on this machine find it.

The process keeps its file locked until it ends, in whatever way it ends. So a file that is not locked is stale. Process
ids cannot show this: a process has another id inside a container than outside. Files are created and removed under a
lock on their directory, because a replica may have the name of a replica that died.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from interlock.embedded.locks import exclusive
from interlock.identity import replica_id

DIRECTORY = "servers"


class LiveReplica(NamedTuple):
    url: str
    pid: int


@contextmanager
def announced(data_dir: Path, url: str) -> Iterator[None]:
    """Creates this replica's file for the time of the block. First removes the files of replicas that died."""
    directory = data_dir / DIRECTORY
    path = directory / f"{replica_id().replace('/', '_')}.json"
    with _exclusive(directory):
        _remove_stale(directory)
        handle = _write_locked(path, json.dumps({"url": url, "pid": os.getpid(), "replica": replica_id()}))
    try:
        yield
    finally:
        with _exclusive(directory), suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):  # not the file of another replica of this name
                path.unlink()
        os.close(handle)


def live_replicas(data_dir: Path) -> list[LiveReplica]:
    """The replicas that run on this data directory, as far as this user may read their files."""
    found = []
    for file in (data_dir / DIRECTORY).glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError), file.open(encoding="utf-8") as content:
            if _is_locked(content.fileno()):
                facts = json.load(content)
                found.append(LiveReplica(str(facts["url"]), int(facts["pid"])))
    return found


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


@contextmanager
def _exclusive(directory: Path) -> Iterator[None]:
    with exclusive(directory / "lock", lambda: directory.mkdir(mode=0o700, exist_ok=True)):
        yield


def _write_locked(path: Path, content: str) -> int:
    """Locks the file before the file gets its name. Returns the open file, which holds the lock."""
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, content.encode())
        temporary.replace(path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _remove_stale(directory: Path) -> None:
    for file in directory.glob("*.json"):
        with suppress(OSError):
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its replica lives
                file.unlink()
            finally:
                os.close(handle)
