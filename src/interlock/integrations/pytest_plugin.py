"""A fixture for tests of code that uses leases: a real store, in which a test can make leases expire or get lost.

::

    def test_an_import_is_skipped_while_another_runs(interlock):
        with interlock.held_elsewhere("feeds"):
            assert import_feeds() is None

See docs/how-to/testing.md.

pytest loads this module at every start, so the module imports the rest of Interlock only when a test uses the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from interlock.integrations.testing import Bench

_ABOUT = "store of the `interlock` fixture: sqlite (the default), embedded, or postgresql://user@host/database"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("interlock").addoption("--interlock-url", metavar="URL", help=_ABOUT)
    parser.addini("interlock_url", _ABOUT, default="sqlite")


@pytest.fixture(scope="session")
def interlock_server(pytestconfig: pytest.Config) -> "Iterator[str | None]":
    """The URL of the PostgreSQL database that the tests share; None if each test has its own SQLite file."""
    from interlock.integrations.testing import embedded_server

    url = pytestconfig.getoption("--interlock-url") or pytestconfig.getini("interlock_url")
    if url == "embedded":
        with embedded_server() as url:
            yield url
    else:
        yield None if url == "sqlite" else url


@pytest.fixture
def interlock(
    interlock_server: str | None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> "Iterator[Bench]":
    """The test's own store. ``Interlock()`` without a URL uses this store while the test runs; see `Bench`."""
    from interlock.integrations.testing import bench

    with bench(interlock_server, tmp_path_factory, monkeypatch) as made:
        yield made
