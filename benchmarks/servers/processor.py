"""The processor time of processes."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Processor seconds of the process, its living children, and its ended children that were waited for."""
    return sum(_seconds(each) for each in (pid, *_children(pid)))


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # it has just ended, and its time counts for its parent
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS
