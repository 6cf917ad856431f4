"""Forked children of the test's process and their results; and programs that fork, in process groups of their own."""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Child:
    """A child that runs `work` and no other line of the test. With `stays` it lives until it is killed.

    Its standard error is kept.
    """

    def __init__(self, work: Callable[[], Any], *, stays: bool = False) -> None:
        answer, complaint = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(complaint[1], 2)
            os.close(complaint[1])
            _run(work, answer[1], stays=stays)
        os.close(answer[1])
        os.close(complaint[1])
        self._answer, self._complaint = answer[0], complaint[0]

    def result(self) -> Any:
        """The result of the work as JSON data; an error that ended it fails the test."""
        with os.fdopen(self._answer, "r") as end:
            answer = json.loads(end.readline())
        assert "error" not in answer, answer["error"]
        return answer["given"]

    def end(self) -> str:
        """Wait until the child has ended. Returns its standard error."""
        with os.fdopen(self._complaint, "r") as end:
            complaint = end.read()
        os.waitpid(self.pid, 0)
        return complaint

    def kill(self) -> str:
        os.kill(self.pid, signal.SIGKILL)
        return self.end()


def _run(work: Callable[[], Any], answer: int, *, stays: bool) -> None:
    try:
        told = json.dumps({"given": work()})
    except BaseException:
        told = json.dumps({"error": traceback.format_exc()})
    os.write(answer, f"{told}\n".encode())
    while stays:
        signal.pause()
    os._exit(0)


def in_child(work: Callable[[], Any]) -> Any:
    """The result of `work` in a forked child, which has to end without errors."""
    child = Child(work)
    given = child.result()
    complaint = child.end()
    assert complaint == ""
    return given


def started(program: str, *args: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0)


def succeeds(program: str, *args: str) -> None:
    """Run the program, which has to succeed. If it does not end, its children are killed too."""
    process = started(program, *args)
    assert process.stdout is not None
    try:
        assert process.wait(50) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
