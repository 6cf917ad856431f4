"""For tests of who waits, and of how it is told."""

import pytest

from interlock.coordination.engine import queue
from support.protocol import rewrite


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by itself: whoever waits is told, or waits for ever."""
    monkeypatch.setattr(queue, "_POLL_EVERY", 3600.0)


@pytest.fixture
def slow_machine(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed on lasts ten seconds instead of one: this machine may stand still that long."""
    rewrite(interlock_url, "release_v1", "least(first.ttl, 1)", "least(first.ttl, 10)")
    monkeypatch.setattr(queue, "_LONGEST_HANDED", 10.0)
