"""Fixtures for tests of waiters and their notifications."""

import pytest

from interlock.coordination.engine import queue
from support.protocol import rewrite


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiters do not poll: they are notified, or wait without end."""
    monkeypatch.setattr(queue, "_POLL_EVERY", 3600.0)


@pytest.fixture
def slow_machine(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grant by a release lasts ten seconds instead of one: this machine may stop for that long."""
    rewrite(interlock_url, "release_v1", "least(first.ttl, 1)", "least(first.ttl, 10)")
    monkeypatch.setattr(queue, "_LONGEST_HANDED", 10.0)
