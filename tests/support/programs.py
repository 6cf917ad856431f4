"""Interlock's command line as real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

INTERLOCK = str(Path(sys.executable).parent / "interlock")

# The settings of the user who runs the tests must not affect them.
_OWN_SETTINGS = {"INTERLOCK_PG_BIN"}


def environment(url: str | None = None, **more: str) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _OWN_SETTINGS or not name.startswith(("INTERLOCK_", "PG"))
    }
    return inherited | ({"INTERLOCK_DATABASE_URL": url} if url else {}) | more


def interlock(*args: str, url: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end. Returns its output and exit status."""
    return subprocess.run(
        [INTERLOCK, *args], env=environment(url, **env), capture_output=True, text=True, timeout=50, check=False
    )


def invocation(*args: str, ignoring: str = "") -> list[str]:
    """The command, started by a shell that ignores these signals, such as ``INT HUP`` for a background job."""
    shell = ["sh", "-c", f"trap '' {ignoring}; exec \"$@\"", "sh"] if ignoring else []
    return [*shell, INTERLOCK, *args]


class Program:
    """A running `interlock`, in a process group of its own."""

    def __init__(self, *args: str, env: Mapping[str, str], ignoring: str = "") -> None:
        self.process = subprocess.Popen(
            invocation(*args, ignoring=ignoring),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, signum: int) -> None:
        self.process.send_signal(signum)

    def end(self) -> tuple[int, str, str]:
        """Wait until it ends by itself. Returns exit status, standard output and standard error."""
        output, error = self.process.communicate(timeout=50)
        return self.process.returncode, output, error


@contextmanager
def started(*args: str, url: str | None = None, ignoring: str = "", **env: str) -> Iterator[Program]:
    program = Program(*args, env=environment(url, **env), ignoring=ignoring)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.send(signal.SIGCONT)
            program.send(signal.SIGKILL)
        program.process.communicate()
