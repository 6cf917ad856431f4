"""Runs PostgreSQL's programs as the right user, detached from this process and without its environment."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from interlock.embedded.accounts import Account
from interlock.errors import ClusterFailed

# Other variables may hold secrets, and PG* variables would change what the programs do.
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

# The shell ends at once, so that the daemon's parent is the system's init, and not a process that might never
# reap it: PostgreSQL takes a dead but unreaped postmaster for a running one.
_DAEMONISE = '"$@" >&2 & echo $!'


def environment(bin_dir: Path) -> dict[str, str]:
    """Returns the environment of PostgreSQL's programs: English messages, and only this process's search paths."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    icu = bin_dir.parent / "share" / "icu"
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", **({"ICU_DATA": str(icu)} if icu.is_dir() else {})}


def run(
    argv: Sequence[str | Path], account: Account | None = None, *, timeout: float = 60, keeps: Sequence[int] = ()
) -> tuple[int, str, str]:
    """Run a program. Returns its exit status, standard output and standard error.

    Raises ClusterFailed if the program cannot be run at all.

    `keeps`: descriptors that the program and its children keep open for as long as they run.
    """
    program = Path(argv[0])
    try:
        done = subprocess.run(
            [os.fspath(word) for word in argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
            cwd="/",
            pass_fds=keeps,
            env=environment(program.parent),
            user=account.switch_user if account else None,
            group=account.switch_group if account else None,
            extra_groups=account.switch_groups if account else None,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterFailed(f"{program} does not run here: {error}.") from error
    return done.returncode, done.stdout, done.stderr


def can_enter(account: Account, directory: Path) -> bool:
    """True if the account's user can enter `directory`. The system is asked, because ACLs and mounts count too."""
    if account.is_us:
        return os.access(directory, os.X_OK)
    return run(["/bin/sh", "-c", 'cd -- "$1"', "sh", directory], account)[0] == 0


def spawn_daemon(argv: Sequence[str | Path], account: Account, log_file: Path) -> int:
    """Start a program in its own session, which survives this process, and return its id. It logs to `log_file`."""
    log = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        started = subprocess.run(
            ["/bin/sh", "-c", _DAEMONISE, "sh", *(os.fspath(word) for word in argv)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            check=True,
            cwd="/",
            env=environment(Path(argv[0]).parent),
            start_new_session=True,
            user=account.switch_user,
            group=account.switch_group,
            extra_groups=account.switch_groups,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ClusterFailed(f"{argv[0]} cannot be started as user {account.name}: {error}.") from error
    finally:
        os.close(log)
    return int(started.stdout)


def has_ended(pid: int) -> bool:
    """True if the process is gone, or is dead and its parent has not reaped it yet."""
    if os.getpid() == 1:  # In a container this process may be init, which has to reap.
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return is_zombie(pid)


def is_zombie(pid: int) -> bool:
    """True if the process is dead and its parent has not reaped it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # gone by now, or a system without /proc
        return False
    return stat.rpartition(b")")[2].split()[:1] == [b"Z"]


def wait_until(condition: Callable[[], bool], *, timeout: float, interval: float = 0.01) -> bool:
    """Returns True as soon as `condition` is true, or False if it is not true within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
    return True
