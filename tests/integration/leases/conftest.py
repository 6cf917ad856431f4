"""Sessions that use the SQL protocol, for tests that need several of them."""

from collections.abc import Iterator

import pytest

from support.protocol import LISTENER, Client


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
def listening(interlock_url: str) -> Iterator[Client]:
    """Listens for all waiters of this test that use `LISTENER`. When it closes, they look dead."""
    with Client(interlock_url, "listening") as client:
        client.listen(LISTENER)
        yield client
