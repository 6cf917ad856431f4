"""Reads a cluster's ``postmaster.pid``, and checks if its postmaster is still alive."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from interlock.embedded.processes import has_ended

PID_FILE = "postmaster.pid"
_CONNECT_TIMEOUT = 5.0


@dataclass(frozen=True)
class Postmaster:
    """`listens_on` is empty if the server has only a Unix socket; `status` is starting, stopping, ready or standby."""

    pid: int
    port: int
    sockets: Path
    listens_on: str
    status: str

    @property
    def is_ready(self) -> bool:
        return self.status in ("ready", "standby")


def read_postmaster(data: Path) -> Postmaster | None:
    """Returns the content of the file, which may be outdated; None if the file is missing or not complete yet."""
    try:
        lines = os.fsdecode((data / PID_FILE).read_bytes()).split("\n")
        pid, _, _, port, sockets, listens_on, _, status = lines[:8]
        return Postmaster(int(pid), int(port), Path(sockets), listens_on.strip(), status.strip())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def told_pid(data: Path) -> int | None:
    """Returns the process id in the file, which the server writes before the rest; None if it is missing."""
    try:
        return int((data / PID_FILE).read_bytes().partition(b"\n")[0])
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def live_postmaster(data: Path) -> Postmaster | None:
    """Returns the postmaster if it is alive, in any state; else None.

    After a crash the file stays, and its process id may belong to another program by now. But no other program listens
    on the cluster's private socket.
    """
    found = read_postmaster(data)
    return found if found and not has_ended(found.pid) and _is_listening(found) else None


def _is_listening(postmaster: Postmaster) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_TIMEOUT)
        try:
            probe.connect(str(postmaster.sockets / f".s.PGSQL.{postmaster.port}"))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (TimeoutError, BlockingIOError):
            pass  # it listens, and is busy
    return True
