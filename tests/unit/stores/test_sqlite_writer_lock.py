"""Who writes to a SQLite file next: whoever has waited, also before somebody who comes back at the right moment."""

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.stores.sqlite import writer_lock
from interlock.stores.sqlite.writer_lock import WriterLock
from support.forks import Child

PATIENCE = 30


class Other:
    """Another process, as far as the kernel's locks go."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

    def take(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def leave(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[WriterLock]:
    opened = WriterLock(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=["gate", "turnstile"])
def other(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Other]:
    opened = Other(tmp_path / request.param)
    yield opened
    opened.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Other]:
    opened = Other(tmp_path / "gate")
    yield opened
    opened.close()


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long somebody would have rested, each time."""
    lengths: list[float] = []
    monkeypatch.setattr("interlock.stores.sqlite.writer_lock.time.sleep", lengths.append)
    return lengths


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when somebody has found a gate shut, and will wait there."""
    found = threading.Event()
    real = writer_lock._passed

    def passed(gate: int) -> bool:
        opened = real(gate)
        if not opened:
            found.set()
        return opened

    monkeypatch.setattr(writer_lock, "_passed", passed)
    return found


def pass_through(ours: WriterLock) -> threading.Thread:
    def work() -> None:
        with ours:
            pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def wait_behind(ours: WriterLock, other: Other, shut: threading.Event) -> None:
    """Once through it, after a wait."""
    other.take()
    thread = pass_through(ours)
    assert shut.wait(PATIENCE)
    other.leave()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_nobody_rests_who_did_not_have_to_wait(ours: WriterLock, rests: list[float]) -> None:
    for _ in range(3):
        with ours:
            pass
    assert not rests


def test_who_had_to_wait_leaves_an_open_gate_open_for_a_moment(
    ours: WriterLock, other: Other, shut: threading.Event, rests: list[float]
) -> None:
    wait_behind(ours, other, shut)
    assert not rests
    for _ in range(2):  # nobody comes: the second time it does not rest
        with ours:
            pass
        assert len(rests) == 1


def test_whoever_is_woken_in_that_moment_goes_first(
    ours: WriterLock, gate: Other, shut: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_behind(ours, gate, shut)
    woken = threading.Event()

    def rest(_: float) -> None:
        gate.take()
        woken.set()

    monkeypatch.setattr("interlock.stores.sqlite.writer_lock.time.sleep", rest)
    shut.clear()
    thread = pass_through(ours)
    assert woken.wait(PATIENCE)
    assert shut.wait(PATIENCE)  # by the one whom we have let go first
    gate.leave()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("closed_before", [0, 1])
def test_an_interrupt_while_a_child_lets_go_of_its_parents_gates_leaves_it_none(
    ours: WriterLock, closed_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one of them open, what a parent that has died had taken would stay taken."""
    parent, closed, close = os.getpid(), [], os.close

    def interrupted(descriptor: int) -> None:
        if os.getpid() != parent:
            closed.append(descriptor)
            if len(closed) == closed_before + 1:
                raise KeyboardInterrupt
        close(descriptor)

    def still_open() -> list[int]:
        assert len(closed) > closed_before
        return [gate for gate in gates if Path(f"/proc/self/fd/{gate}").exists()]

    with ours:
        gates = ours._gates or ()
        monkeypatch.setattr(os, "close", interrupted)
        child = Child(still_open)
        assert child.result() == []
        child.end()
    assert len(gates) == 2
