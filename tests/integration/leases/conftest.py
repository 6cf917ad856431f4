"""Sessions that speak the SQL protocol, for tests that need several of them."""

from collections.abc import Iterator

import pytest

from support.protocol import EAR, Client


@pytest.fixture
def first(interlock_url: str) -> Iterator[Client]:
    with Client(interlock_url, "first") as client:
        yield client


@pytest.fixture
def second(interlock_url: str) -> Iterator[Client]:
    with Client(interlock_url, "second") as client:
        yield client


@pytest.fixture
def third(interlock_url: str) -> Iterator[Client]:
    with Client(interlock_url, "third") as client:
        yield client


@pytest.fixture
def ear(interlock_url: str) -> Iterator[Client]:
    """It hears for all who wait in this test as `EAR`. It closes, and they look dead."""
    with Client(interlock_url, "ear") as client:
        client.listen(EAR)
        yield client
