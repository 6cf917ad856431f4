"""A load as a child process: started, asked, ended."""

import json
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.equipment import ROOT

_PATIENCE = 120.0
_FAREWELL = 10.0


class LoadFailed(Exception):
    """A load ended or fell silent; the message is the last that it said."""


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
            raise LoadFailed(f"it began with {said!r}")

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
        """SIGKILL; the moment (CLOCK_MONOTONIC) just before."""
        at = time.monotonic()
        self._process.kill()
        self._process.wait()
        return at

    def close(self) -> None:
        """End of orders; a load that does not end by itself is killed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], _PATIENCE)[0]:
            raise LoadFailed(f"nothing was heard of it for {_PATIENCE:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        return line.decode().strip()

    def _failure(self) -> LoadFailed:
        self._process.wait()
        said = self._log.read_text(errors="replace").strip().splitlines()
        return LoadFailed((said[-1:] or [f"it ended with status {self._process.returncode}"])[0])
