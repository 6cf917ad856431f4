"""Every test here runs on every store. Its mark says what it shows: a line of docs/reference/stores.md."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from conformance.programs import Program, started
from conformance.stores import KINDS, KINDS_BY_TIER
from interlock import AsyncInterlock
from interlock.coordination.backends.choice import OpenStore, StoreOptions, choose_database
from interlock.stores.leases import Holder


@pytest.fixture(params=KINDS_BY_TIER)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    mark = request.node.get_closest_marker("guarantee")
    if mark is not None:
        primitive, guarantee = mark.args
        gap = KINDS[name].gaps.get(guarantee)
        request.node.user_properties.append(("guarantee", (primitive, guarantee, name, gap)))
        if gap:
            pytest.skip(gap)
    return name


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    return KINDS[kind].url(request)


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Callable[[str], OpenStore]]:
    """Stores on one database, each as if it were a process of its own."""
    stores: list[OpenStore] = []

    def open_(replica: str) -> OpenStore:
        database = choose_database(url, StoreOptions(password=None, schema=None, pooler="detect", timeout=30.0))
        stores.append(database.open(Holder(replica, "here", os.getpid()), lambda purpose: None))
        return stores[-1]

    yield open_
    for store in stores:
        await store.close()


@pytest.fixture
def store(opened: Callable[[str], OpenStore]) -> OpenStore:
    return opened("one")


@pytest.fixture
def other(opened: Callable[[str], OpenStore]) -> OpenStore:
    return opened("two")


@pytest.fixture
async def locks(url: str) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(url, replica="one")
    yield locks
    await locks.close()


@pytest.fixture
async def others(url: str) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(url, replica="two")
    yield locks
    await locks.close()


@pytest.fixture
def process(url: str, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts real processes; whatever they do, they end with the test."""
    with started(url) as start:
        yield start


@pytest.fixture(autouse=True)
def _no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiter is notified or waits on: the poll that covers a lost notification would hide the loss."""
    monkeypatch.setattr("interlock.coordination.engine.queue._POLL_EVERY", 3600.0)
