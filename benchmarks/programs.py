"""A load as a child process."""

import json
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.equipment import ROOT

_TIMEOUT = 120.0
_EXIT_TIMEOUT = 10.0


class LoadFailed(Exception):
    """A load ended or stopped answering. The message is its last output."""


class Load:
    """One program of `benchmarks.loads`."""

    def __init__(self, python: Path, program: str, settings: dict[str, Any], log: Path) -> None:
        self._log = log
        with log.open("wb") as complaints:
            self._process = subprocess.Popen(
                [str(python), "-m", "benchmarks.loads", program, json.dumps(settings)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def await_ready(self) -> None:
        if (said := self._line()) != "ready":
            raise LoadFailed(f"its first output was {said!r}")

    def ask(self, **order: Any) -> Any:
        self.send(**order)
        return self.answer()

    def send(self, **order: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def answer(self) -> Any:
        return json.loads(self._line())

    def kill(self) -> float:
        """Kill the load with SIGKILL. Returns the moment (CLOCK_MONOTONIC) just before."""
        at = time.monotonic()
        self._process.kill()
        self._process.wait()
        return at

    def close(self) -> None:
        """Close the load's input. A load that does not end then is killed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], _TIMEOUT)[0]:
            raise LoadFailed(f"it did not answer for {_TIMEOUT:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        return line.decode().strip()

    def _failure(self) -> LoadFailed:
        self._process.wait()
        said = self._log.read_text(errors="replace").strip().splitlines()
        return LoadFailed((said[-1:] or [f"it ended with status {self._process.returncode}"])[0])
