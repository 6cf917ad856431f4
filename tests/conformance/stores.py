"""The stores that have to pass this suite. A new one is a line here."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from interlock.stores.sqlite.url import file_of
from support.dynamodb import fresh_table


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


def _table(engine: str) -> Callable[[pytest.FixtureRequest], str]:
    def fresh(request: pytest.FixtureRequest) -> str:
        request.getfixturevalue("aws_credentials")
        return fresh_table(request.getfixturevalue(engine))

    return fresh


_NO_QUEUE = "there is no queue: the first request after the release gets it"
_DYNAMODB = {
    "waiters are served in order of arrival": _NO_QUEUE,
    "waiters are woken by the release": "waiters poll, at least once a second",
    "a waiter that does not respond is skipped": _NO_QUEUE,
    "a waiter that leaves the queue passes its position on": _NO_QUEUE,
    "a lease can be handed over": _NO_QUEUE,
    "one leader at a time, and another when it goes": "there is no queue: a former leader may win again at once",
    "renewals of one process share a request": "each is a request of its own, 32 at a time",
    "tokens only grow, also when a name was forgotten": "the table deletes items a week after their last use",
    "old records can be deleted": "records stay: DynamoDB finds no items by the beginning of their keys",
    "the next holder waits for a guarded transaction": "nothing stays open: a transaction is sent as a whole",
    "a release does not wait for a guarded transaction": "nothing stays open: a transaction is sent as a whole",
    "a guarded name delays no other": "nothing stays open: a transaction is sent as a whole",
    "the holder's renewals pass an open guard": "nothing stays open: a transaction is sent as a whole",
    "a guard outside a transaction is refused": "the guard is an item of the transaction",
    "several leases are guarded together": "each grant has an item of its own for the transaction",
}

KINDS = {
    "PostgreSQL": Kind(
        lambda request: str(request.getfixturevalue("interlock_url")), psycopg.connect, _autocommit_postgres
    ),
    "SQLite": Kind(
        lambda request: f"sqlite:///{request.getfixturevalue('tmp_path')}/leases.db",
        lambda url: sqlite3.connect(file_of(url)),
        _autocommit_sqlite,
        gaps={
            "a guarded name delays no other": "a file has one writer: a transaction that writes delays all leases",
            "the holder's renewals pass an open guard": "a renewal waits for it, as every writer of the file does",
        },
    ),
    "DynamoDB (ministack)": Kind(_table("ministack"), gaps=_DYNAMODB),
    "DynamoDB (dynalite)": Kind(
        _table("dynalite"),
        gaps=_DYNAMODB
        | dict.fromkeys(
            (
                "a holder's guarded transaction is committed",
                "a holder that lost its lease commits nothing",
                "a holder's record is kept",
                "a holder that lost its lease writes no record",
                "a record outlives its lease's row",
                "each tick is run by one replica",
                "a clock that was ahead for a moment does not stop it",
                "another takes over when it fails",
                "the first call runs, and all others get its result",
                "a writer is alone also while replicas disagree on `readers`",
            ),
            "this engine has no transactions",
        ),
    ),
}

_SECOND_ENGINE = "DynamoDB (dynalite)"
KINDS_BY_TIER = [pytest.param(name, marks=pytest.mark.exhaustive) if name == _SECOND_ENGINE else name for name in KINDS]
