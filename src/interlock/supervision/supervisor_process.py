"""A supervisor process that is started before its command, while the lease is acquired.

`interlock.supervision.supervisor` describes the processes. Until the supervisor gets the command, only the guard runs,
without children. The guard may be killed at any moment, and it ends with this process.
"""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from interlock.errors import CommandNotExecutable, CommandNotFound, CommandNotStarted

# Not imported here: it loads modules that this process does not need. Its own process imports it, and so runs it
# compiled.
_SUPERVISOR = "import sys; sys.path.insert(0, sys.argv.pop(1)); import supervisor; supervisor.run_as_program()"


class SupervisorProcess:
    """The end of its block kills the process, unless a command has called `take`. Raises `CommandNotStarted`."""

    def __init__(self) -> None:
        self.control, remote = socket.socketpair()
        self.control.setblocking(False)
        self._taken = False
        try:
            with remote:
                self.process = _started(remote.fileno())
        except BaseException:
            self.control.close()
            raise

    @property
    def is_up(self) -> bool:
        """True if the process still runs and has no command yet."""
        return not self._taken and self.process.poll() is None

    def take(self) -> Self:
        """Hand the process over to the caller, who has to end it."""
        self._taken = True
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._taken:
            self.control.close()
            self.process.kill()
            self.process.wait()


def order(
    argv: Sequence[str],
    trust_until: float,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
) -> bytes:
    """Returns the line that gives the supervisor its command. Raises ValueError for arguments that cannot be passed."""
    fields = [os.fsencode(cwd or ""), *map(os.fsencode, argv), *_entries(os.environ if env is None else env)]
    if any(b"\0" in field for field in fields):
        raise ValueError("embedded null byte")
    packed = b"\0".join(fields).hex()
    return f"run {trust_until!r} {len(argv)} {packed}\n".encode()


def _entries(env: Mapping[str, str]) -> Iterator[bytes]:
    for name, value in env.items():
        if "=" in name:
            raise ValueError("illegal environment variable name")
        yield os.fsencode(name) + b"=" + os.fsencode(value)


def _started(control: int) -> subprocess.Popen[bytes]:
    python = [sys.executable, "-I", "-S", "-c", _SUPERVISOR, str(Path(__file__).parent)]
    try:
        return subprocess.Popen([*python, str(control), str(os.getpid())], pass_fds=[control], start_new_session=True)
    except OSError as error:
        raise not_started(sys.executable, error) from error


def not_started(program: str | os.PathLike[str], error: OSError) -> CommandNotStarted:
    message = f"Cannot run {os.fspath(program)!r}: {error.strerror}."
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return CommandNotFound(f"{message} Check the name, PATH, the script's #! line and the working directory.")
    if isinstance(error, PermissionError) or error.errno == errno.ENOEXEC:
        message = f"{message} Make it executable, and begin a script with a #! line."
    return CommandNotExecutable(message)
