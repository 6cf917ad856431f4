"""Two root objects on one database: each has connections and an ear of its own, as two processes would."""

from collections.abc import AsyncIterator, Iterator

import pytest

from interlock import AsyncInterlock, Interlock
from support.protocol import rewrite


@pytest.fixture(autouse=True)
def _frequent_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps start, settle and clean up recorded work. At the usual interval, tests would mostly wait for them."""
    monkeypatch.setattr("interlock.durable.replica._SWEEP_EVERY", 0.1)
    monkeypatch.setattr("interlock.durable.outbox._GRACE", 0.05)


@pytest.fixture
async def locks(interlock_url: str) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(interlock_url, replica="one")
    yield locks
    await locks.close()


@pytest.fixture
async def others(interlock_url: str) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(interlock_url, replica="two")
    yield locks
    await locks.close()


@pytest.fixture
def only_called(interlock_url: str) -> None:
    """Nothing is handed on: whoever is first in the queue is called, and has to ask, as where the lease is guarded."""
    rewrite(interlock_url, "release_v1", "IF direct AND", "IF false AND")


@pytest.fixture
def sync_locks(interlock_url: str) -> Iterator[Interlock]:
    locks = Interlock(interlock_url, replica="one")
    yield locks
    locks.close()
