"""The store of a root object is chosen by its URL."""

import subprocess
import sys

import pytest

from interlock import AsyncInterlock
from interlock.coordination.backends.postgres import PostgresDatabase
from interlock.errors import ConfigurationError


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL"])
def test_the_scheme_of_the_url_decides(scheme: str) -> None:
    assert isinstance(AsyncInterlock(f"{scheme}://nobody@nowhere.invalid/none")._resolve_database(), PostgresDatabase)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("mysql://web:geheim@db/shop", "begins with 'mysql://'"),
        ("postgresql+asyncpg://web:geheim@db/shop", "drop the '\\+asyncpg'"),
        ("web:geheim@db/shop", "has no scheme"),
        ("/var/lib/shop.db", "has no scheme"),
        ("", "is empty"),
    ],
)
def test_a_url_without_a_store_is_refused_when_the_root_object_is_made(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as refused:
        AsyncInterlock(url)
    assert "geheim" not in str(refused.value)


def test_the_environment_is_read_when_the_database_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    locks = AsyncInterlock()
    monkeypatch.setenv("INTERLOCK_DATABASE_URL", "mysql://db/shop")
    with pytest.raises(ConfigurationError, match="begins with 'mysql://'"):
        locks._resolve_database()


def test_no_driver_is_imported_before_a_url_needs_it() -> None:
    code = "import sys, interlock.coordination.sync.root; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiobotocore", "asyncpg", "botocore", "sqlite3"} & set(loaded)
