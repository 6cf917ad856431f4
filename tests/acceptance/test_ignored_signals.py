"""Commands that run another one, started with SIGINT and SIGHUP ignored, as by `nohup` or in a script's background."""

import signal
import sys

import pytest

from support.gates import waiters
from support.lock_commands import line_of
from support.postgres import execute
from support.programs import started
from support.waiting import eventually

RUNS = [
    ("lock", "run", "feeds"),
    ("gate", "run"),
    ("semaphore", "run", "feeds", "--slots", "1"),
    ("elect", "feeds"),
    ("once", "feeds"),
    ("every", "200ms", "feeds"),
]

ENDS_WITH_9 = """
import signal, sys
stopping = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)
ignored = [signum.name for signum in stopping if signal.getsignal(signum) is signal.SIG_IGN]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print(*ignored, flush=True)
while True:
    signal.pause()
"""


def waiting(url: str) -> int:
    return waiters(url) + int(execute(url, "SELECT count(*) FROM interlock.waiter")[0][0])


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_they_stay_ignored_for_interlock_and_for_its_command_and_sigterm_ends_both(
    interlock_url: str, run: tuple[str, ...]
) -> None:
    ends_with_9 = (sys.executable, "-c", ENDS_WITH_9)
    with started(*run, "--", "bash", "-c", "echo begun; exec sleep 300", url=interlock_url) as first:
        assert line_of(first) == "begun"
        with started(*run, "--", *ends_with_9, url=interlock_url, ignoring="INT HUP TERM") as second:
            eventually(lambda: waiting(interlock_url))
            second.send(signal.SIGINT)
            second.send(signal.SIGHUP)
            first.send(signal.SIGTERM)
            assert line_of(second) == "SIGINT SIGHUP", "a signal ended the wait, or the command does not ignore it"
            second.send(signal.SIGINT)
            second.send(signal.SIGHUP)
            second.send(signal.SIGTERM)
            assert second.end()[0] == (128 + signal.SIGTERM if run[0] == "every" else 9)
