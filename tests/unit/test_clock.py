"""The clock of this machine, which measures trust."""

import subprocess
import sys
import time

from interlock.clock import boottime


def test_it_never_goes_back() -> None:
    readings = [boottime() for _ in range(1000)]
    assert readings == sorted(readings)


def test_it_is_not_the_time_of_day() -> None:
    assert abs(boottime() - time.time()) > 1_000_000


def test_processes_of_one_machine_can_compare_their_readings() -> None:
    before = boottime()
    program = [sys.executable, "-c", "from interlock.clock import boottime; print(repr(boottime()))"]
    between = float(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    assert before < between < boottime()
