"""Session locks between real processes: killed, suspended, forked, and many at once."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import pytest

from interlock import errors
from support.pooler import PoolMode, pooled
from support.postgres import execute
from support.programs import environment
from support.session_lock_program import ROUNDS
from support.session_locks import QUICK, holder, in_line, locks_at, sessions
from support.waiting import eventually

PROGRAM = Path(__file__).parents[2] / "support" / "session_lock_program.py"
Record = Callable[[str, object], None]


class Process:
    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *args],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def fileno(self) -> int:
        """The descriptor of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def reads(self, word: str) -> list[str]:
        """Returns the fields of the next line, which begins with that word; the last is its time."""
        assert self.process.stdout is not None
        first, *rest = self.process.stdout.readline().split() or [""]
        assert first == word
        return rest

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def send(self, signum: int) -> None:
        self.process.send_signal(signum)


@contextmanager
def started(mode: str, url: str, ttl: float = 10.0) -> Iterator[Process]:
    process = Process(mode, url, str(ttl))
    try:
        yield process
    finally:
        os.killpg(process.process.pid, signal.SIGKILL)
        process.process.communicate()


@contextmanager
def holding_and_waiting(url: str, ttl: float = 10.0, mode: str = "hold") -> Iterator[tuple[Process, Process]]:
    with started(mode, url, ttl) as first:
        eventually(lambda: holder(url))
        with started("hold", url) as second:
            eventually(lambda: in_line(url))
            yield first, second


def test_the_next_in_the_queue_has_the_lock_as_soon_as_its_holder_is_killed(
    database_url: str, record_property: Record
) -> None:
    took = []
    with ExitStack() as stack:
        waiting = [stack.enter_context(started("hold", database_url, 3600)) for _ in range(6)]
        eventually(lambda: len(in_line(database_url)) == 5)
        holding, _ = first_to_hold(waiting)
        while waiting:
            killed_at = time.time()
            holding.send(signal.SIGKILL)
            holding, at = first_to_hold(waiting)
            took.append(at - killed_at)
    record_property(
        "figure",
        f"session lock: from SIGKILL of the holder to the next grant {median(took) * 1000:.1f} ms, "
        f"at most {max(took) * 1000:.1f} ms, in {len(took)} runs",
    )


def first_to_hold(waiting: list[Process]) -> tuple[Process, float]:
    """Returns the first process that reports it, and the time, and removes it from the waiters."""
    ready, _, _ = select.select(waiting, [], [], 20)
    (holding,) = ready
    waiting.remove(holding)
    (at,) = holding.reads("held")
    return holding, float(at)


def test_a_suspended_holder_loses_the_lock_and_notices_it_when_it_goes_on(database_url: str) -> None:
    with holding_and_waiting(database_url, ttl=QUICK) as (first, second):
        first.reads("held")
        first.send(signal.SIGSTOP)
        second.reads("held")
        first.go_on()  # so that it first checks the lock when it goes on
        first.send(signal.SIGCONT)
        first.reads("lost")
        second.go_on()
        second.reads("released")


@pytest.mark.exhaustive
def test_a_suspended_waiter_delays_those_behind_it_for_the_ttl_at_most(database_url: str) -> None:
    with started("hold", database_url) as first:
        first.reads("held")
        with started("hold", database_url, QUICK) as stopped:
            eventually(lambda: in_line(database_url))
            stopped.send(signal.SIGSTOP)
            with started("hold", database_url) as behind:
                eventually(lambda: len(sessions(database_url)) == 3)
                first.go_on()
                behind.reads("held")


def test_a_killed_waiter_delays_no_one(database_url: str) -> None:
    with (
        holding_and_waiting(database_url, ttl=3600) as (first, second),
        started("hold", database_url, 3600) as third,
    ):
        eventually(lambda: len(in_line(database_url)) == 2)
        second.send(signal.SIGKILL)
        first.go_on()
        third.reads("held")


def test_a_forked_child_neither_keeps_a_dead_parents_lock_nor_ends_a_live_ones(database_url: str) -> None:
    with holding_and_waiting(database_url, ttl=3600, mode="fork") as (first, second):
        reports = sorted(first.process.stdout.readline().split()[:2] for _ in range(2))  # type: ignore[union-attr]
        assert [words[0] for words in reports] == ["child", "held"]
        assert reports[0][1] == "True", "the child does not think that it holds the lock"
        parents = holder(database_url)
        assert parents, "what the child did left the parent's session alone"
        first.send(signal.SIGKILL)
        second.reads("held")
        assert holder(database_url) != parents


@pytest.mark.exhaustive
def test_a_dozen_processes_never_hold_it_at_the_same_time(database_url: str) -> None:
    execute(database_url, "CREATE TABLE counter AS SELECT 0 AS value")
    processes = [Process("count", database_url) for _ in range(12)]
    try:
        for process in processes:
            process.reads("counted")
    finally:
        for process in processes:
            process.process.kill()
            process.process.communicate()
    assert execute(database_url, "SELECT value FROM counter") == [(12 * ROUNDS,)]
    assert sessions(database_url) == set()


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_a_pooler_is_refused(database_url: str, mode: PoolMode) -> None:
    with pooled(database_url, mode) as url:
        lock = locks_at(url)()
        with pytest.raises(errors.PoolerRefused, match=r"is a connection pooler.* take a lease instead"):
            await lock.try_acquire()
        with pytest.raises(errors.PoolerRefused):
            await lock.acquire()
        assert execute(database_url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
