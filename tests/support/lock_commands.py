"""Commands for `interlock lock run`, and the state of their lease in the database."""

import os
from dataclasses import dataclass
from datetime import datetime

from support.postgres import execute
from support.programs import Program

# In its own process group, in a session of its own, and as an orphan.
FAMILY = (
    "sleep 300 & child=$!; setsid sleep 300 & stranger=$!; orphan=$( (sleep 300 >/dev/null & echo $!) ); "
    "echo $$ $child $stranger $orphan; wait"
)
"""A shell script that prints its process id and those of three others that it started, and runs until it is ended."""

_LOOK = "SELECT held, waiters, acquired_at, renewed_at, expires_at FROM interlock.leases_v1(%s)"
_HANG_UP = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE 'interlock %' AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True)
class Look:
    held: bool
    waiters: int
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime | None


def look(url: str, name: str = "feeds") -> Look | None:
    found = execute(url, _LOOK, name)
    return Look(*found[0]) if found else None


def is_held(url: str, name: str = "feeds") -> bool:
    seen = look(url, name)
    return seen is not None and seen.held


def is_waited_for(url: str, name: str = "feeds", *, by: int = 1) -> bool:
    seen = look(url, name)
    return seen is not None and seen.waiters >= by


def seen(url: str, name: str = "feeds") -> Look:
    found = look(url, name)
    assert found is not None
    return found


def line_of(program: Program) -> str:
    """The next line of its output."""
    assert program.process.stdout is not None
    line: str = program.process.stdout.readline()
    return line.rstrip("\n")


def family_of(program: Program) -> list[int]:
    return [int(pid) for pid in line_of(program).split()]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def end_every_session(url: str) -> int:
    """Terminate all sessions of Interlock in that database. Returns their number."""
    return int(execute(url, _HANG_UP)[0][0])
