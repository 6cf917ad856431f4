"""Who writes to a SQLite file next: whoever has waited, also before somebody who comes back at the right moment."""

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.stores.sqlite.turnstile import Turnstile

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
def ours(tmp_path: Path) -> Iterator[Turnstile]:
    opened = Turnstile(tmp_path)
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
def rests(monkeypatch: pytest.MonkeyPatch) -> list[threading.Event]:
    """What is to happen in each rest; one that was not expected fails."""
    events: list[threading.Event] = []

    def rest(_: float) -> None:
        events.pop(0).set()

    monkeypatch.setattr("interlock.stores.sqlite.turnstile.time.sleep", rest)
    return events


def pass_through(ours: Turnstile) -> threading.Thread:
    def work() -> None:
        with ours:
            pass

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def wait_behind(ours: Turnstile, other: Other) -> None:
    """Once through it, after a wait."""
    other.take()
    thread = pass_through(ours)
    thread.join(0.05)  # it stands there by then, most likely; if not, the tests that follow would fail
    assert thread.is_alive()
    other.leave()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_nobody_rests_who_did_not_have_to_wait(ours: Turnstile, rests: list[threading.Event]) -> None:
    for _ in range(3):
        with ours:
            pass
    assert not rests


def test_who_had_to_wait_leaves_an_open_gate_open_for_a_moment(
    ours: Turnstile, other: Other, rests: list[threading.Event]
) -> None:
    wait_behind(ours, other)
    rests.append(threading.Event())
    with ours:
        pass
    assert not rests
    with ours:  # nobody came: from here on it does not rest
        pass


def test_whoever_is_woken_in_that_moment_goes_first(
    ours: Turnstile, gate: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_behind(ours, gate)
    woken = threading.Event()

    def rest(_: float) -> None:
        gate.take()
        woken.set()

    monkeypatch.setattr("interlock.stores.sqlite.turnstile.time.sleep", rest)
    thread = pass_through(ours)
    assert woken.wait(PATIENCE)
    thread.join(0.05)
    assert thread.is_alive()
    gate.leave()
    thread.join(PATIENCE)
    assert not thread.is_alive()
