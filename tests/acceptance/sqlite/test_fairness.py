"""Eight processes on one SQLite file: none of them starves. How well is printed, and not judged: machines are noisy."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[3]
PROCESSES = 8


@pytest.mark.parametrize("names", ["one for all", "one for each"])
def test_every_process_gets_its_share(
    tmp_path: Path, names: str, record_property: Callable[[str, object], None]
) -> None:
    with ExitStack() as stack:
        loads = []
        for number in range(PROCESSES):
            settings = {"url": f"sqlite:///{tmp_path}/leases.db", "name": f"own {number}" if "each" in names else "one"}
            command = [sys.executable, "-m", "benchmarks.loads", "interlock_steady", json.dumps(settings)]
            pipe = subprocess.PIPE
            loads.append(stack.enter_context(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)))
            stack.callback(loads[-1].kill)
        for load in loads:
            assert load.stdout is not None
            assert load.stdout.readline() == "ready\n"
        until = time.monotonic() + 2
        for load in loads:
            assert load.stdin is not None
            load.stdin.write(json.dumps({"until": until}) + "\n")
            load.stdin.flush()
        results = [json.loads(load.stdout.readline()) for load in loads if load.stdout is not None]
    counts, worst = [tally["count"] for tally in results], max(tally["worst"] for tally in results)
    assert min(counts) > 0
    record_property(
        "figure",
        f"SQLite, {PROCESSES} processes, names: {names}: {min(counts)} to {max(counts)} cycles each "
        f"(spread {max(counts) / min(counts):.2f}), worst cycle {worst * 1000:.0f} ms",
    )
