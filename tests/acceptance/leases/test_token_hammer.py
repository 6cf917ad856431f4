"""Twelve processes on one name, through the public API: the token never decreases, not even by one.

It fails if the token is made before the row is locked (a sequence's `nextval` in the same INSERT, say), if a release
deletes the row and the count begins again, or if two processes hold the lease at once. Every third does not wait for
its releases.
"""

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from support import hammer

PROCESSES = 12
GRANTS = 60


@pytest.mark.exhaustive
def test_tokens_only_grow_while_twelve_processes_hammer_one_name(interlock_url: str, tmp_path: Path) -> None:
    log = tmp_path / "grants"
    command = [sys.executable, str(hammer.__file__), interlock_url, str(log), str(GRANTS)]

    commands = [command if number % 3 else [*command, "brisk"] for number in range(PROCESSES)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    try:
        complaints = [process.communicate()[1] for process in running]
    finally:
        for process in running:
            process.kill()

    assert [process.returncode for process in running] == [0] * PROCESSES, complaints
    grants = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    tokens = [token for token, _ in grants]
    assert [(last, this) for last, this in pairwise(tokens) if this <= last] == []
    assert Counter(pid for _, pid in grants) == {process.pid: GRANTS for process in running}
