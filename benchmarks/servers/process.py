"""A server as a child process."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_START_TIMEOUT = 30.0
_STOP_TIMEOUT = 15.0


class ServerFailed(Exception):
    """A server did not start. The message is its last output."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], directory: Path, port: int, **environment: str) -> Iterator[None]:
    """Run `command` until the end of the block, which is entered when it accepts connections on `port`."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _await_port(process, port, log)
        yield
    finally:
        _stop(process)


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up_at = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < give_up_at and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    said = log.read_text(errors="replace").strip().splitlines()
    raise ServerFailed((said[-1:] or ["it said nothing"])[0])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
