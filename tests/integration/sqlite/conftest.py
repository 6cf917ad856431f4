"""A file for each test, and root objects on it."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Interlock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture
async def locks(url: str) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(url, replica="one")
    yield locks
    await locks.close()


@pytest.fixture
def sync_locks(url: str) -> Iterator[Interlock]:
    with Interlock(url, replica="one") as locks:
        yield locks


@pytest.fixture
def mine(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the user's own, in a transaction only when a test begins one."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=0.2)
    yield connection
    connection.close()
