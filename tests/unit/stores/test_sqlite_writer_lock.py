"""The writer lock of a SQLite file serves waiters before a process that comes back at the right moment."""

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
    """Stands for another process: it locks by a descriptor of its own."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

    def take(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def leave(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[WriterLock]:
    opened = WriterLock(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=[writer_lock.ENTRY, writer_lock.WRITER])
def other(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Other]:
    opened = Other(tmp_path / request.param)
    yield opened
    opened.close()


@pytest.fixture
def entry(tmp_path: Path) -> Iterator[Other]:
    opened = Other(tmp_path / writer_lock.ENTRY)
    yield opened
    opened.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The lengths of the pauses that would have been made."""
    lengths: list[float] = []
    monkeypatch.setattr("interlock.stores.sqlite.writer_lock.time.sleep", lengths.append)
    return lengths


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a lock was found taken, and will be waited for."""
    found = threading.Event()
    real = writer_lock._try_lock

    def try_lock(descriptor: int) -> bool:
        free = real(descriptor)
        if not free:
            found.set()
        return free

    monkeypatch.setattr(writer_lock, "_try_lock", try_lock)
    return found


def pass_through(lock: WriterLock) -> threading.Thread:
    def work() -> None:
        with lock:
            pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def wait_behind(lock: WriterLock, other: Other, blocked: threading.Event) -> None:
    """Take the lock once, after a wait."""
    other.take()
    thread = pass_through(lock)
    assert blocked.wait(PATIENCE)
    other.leave()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_no_pause_after_a_lock_without_a_wait(lock: WriterLock, pauses: list[float]) -> None:
    for _ in range(3):
        with lock:
            pass
    assert not pauses


def test_a_process_that_had_to_wait_leaves_a_free_entry_lock_free_for_a_moment(
    lock: WriterLock, other: Other, blocked: threading.Event, pauses: list[float]
) -> None:
    wait_behind(lock, other, blocked)
    assert not pauses
    for _ in range(2):  # no other process comes: no pause the second time
        with lock:
            pass
        assert len(pauses) == 1


def test_a_process_that_is_woken_in_that_moment_goes_first(
    lock: WriterLock, entry: Other, blocked: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_behind(lock, entry, blocked)
    woken = threading.Event()

    def pause(_: float) -> None:
        entry.take()
        woken.set()

    monkeypatch.setattr("interlock.stores.sqlite.writer_lock.time.sleep", pause)
    blocked.clear()
    thread = pass_through(lock)
    assert woken.wait(PATIENCE)
    assert blocked.wait(PATIENCE)  # the one that let another go first waits
    entry.leave()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("closed_before", [0, 1])
def test_an_interrupt_while_a_child_detaches_its_parents_locks_leaves_none_open(
    lock: WriterLock, closed_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one of them open in a child, a lock of a dead parent would stay taken."""
    parent, closed, close = os.getpid(), [], os.close

    def interrupted(descriptor: int) -> None:
        if os.getpid() != parent:
            closed.append(descriptor)
            if len(closed) == closed_before + 1:
                raise KeyboardInterrupt
        close(descriptor)

    def still_open() -> list[int]:
        assert len(closed) > closed_before
        return [each for each in descriptors if Path(f"/proc/self/fd/{each}").exists()]

    with lock:
        descriptors = lock._descriptors or ()
        monkeypatch.setattr(os, "close", interrupted)
        child = Child(still_open)
        assert child.result() == []
        child.end()
    assert len(descriptors) == 2
