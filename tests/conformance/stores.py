"""The stores that have to pass this suite. A new one is a line here."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from interlock.stores.sqlite.url import file_of


@dataclass(frozen=True)
class Kind:
    """`url` names a fresh store. `connect` opens a connection of the user's own to it, if there is one that a guard can
    be put on, and `autocommit` takes its transactions away. `gaps`: what the store does not promise, word for word as
    the suite calls it, and why."""

    url: Callable[[pytest.FixtureRequest], str]
    connect: Callable[[str], Any] | None = None
    autocommit: Callable[[Any], None] = lambda connection: None
    gaps: Mapping[str, str] = field(default_factory=dict)


def _autocommit_postgres(connection: Any) -> None:
    connection.autocommit = True


def _autocommit_sqlite(connection: Any) -> None:
    connection.isolation_level = None


KINDS = {
    "PostgreSQL": Kind(
        lambda request: str(request.getfixturevalue("interlock_url")), psycopg.connect, _autocommit_postgres
    ),
    "SQLite": Kind(
        lambda request: f"sqlite:///{request.getfixturevalue('tmp_path')}/leases.db",
        lambda url: sqlite3.connect(file_of(url)),
        _autocommit_sqlite,
        gaps={
            "a guarded name holds up no other": "a file has one writer: a transaction that writes holds up all leases",
            "the holder's renewals pass an open guard": "a renewal waits for it, as every writer of the file does",
        },
    ),
}
