"""Which changes of the file are on the disk before anybody is answered: that a token was given out, no more."""

import asyncio
import sqlite3
from pathlib import Path
from uuid import uuid4

import pytest

from interlock.coordination.errands import Unwanted
from interlock.stores.leases import Ask, Holder
from interlock.stores.sqlite.leases import SqliteLeases
from interlock.stores.sqlite.writing import Writer


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each transaction that wrote: whether it waited for the disk."""
    seen: list[bool] = []
    begin = Writer._has_begun

    def watched(writer: Writer, connection: sqlite3.Connection, wanted: list[object]) -> bool:
        begun = begin(writer, connection, wanted)  # type: ignore[arg-type]
        if begun:
            level = connection.execute("PRAGMA synchronous").fetchone()[0]
            seen.append(level == 2)
        return begun

    monkeypatch.setattr(Writer, "_has_begun", watched)
    return seen


def ask(*, wait: bool = True) -> Ask:
    return Ask("feeds", uuid4(), 30.0, None, wait)


async def test_only_a_grant_waits_for_the_disk(file: Path, waits: list[bool]) -> None:
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    told = asyncio.Event()
    await store.listen(lambda *_: told.set(), lambda: None)
    first, second, third = ask(), ask(), ask()
    waits.clear()

    (granted,) = await store.acquire([first])
    assert (granted.status, waits) == ("granted", [True])
    (queued,) = await store.acquire([second])
    assert (queued.status, waits) == ("busy", [True, False])
    (released,) = await store.release([Unwanted(first.name, granted.token, first.grant_id, first.ttl)])
    assert (released.offered, waits) == (second.grant_id, [True, False, False])
    (late,) = await store.acquire([third])  # it is free, and somebody else's turn
    assert (late.status, waits) == ("busy", [True, False, False, False])
    (granted,) = await store.acquire([second])
    assert (granted.status, waits) == ("granted", [True, False, False, False, True])
    await store.close()


async def test_what_is_found_free_only_in_the_transaction_is_granted_in_another(
    file: Path, waits: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may expire between the look and the transaction, and whoever was first may be found dead."""
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    await store.look()
    waits.clear()
    monkeypatch.setattr("interlock.stores.sqlite.granting.may_grant", lambda *_: False)
    (granted,) = await store.acquire([ask()])
    assert (granted.status, waits) == ("granted", [False, True])
    await store.close()
