"""Processes on one SQLite file, killed at any statement: nothing that was said is lost, and nothing goes back."""

import random
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from interlock import Interlock
from support.sqlite_worker import LEDGER, Worker

pytestmark = pytest.mark.exhaustive

NAMES = ("a", "b", "c")
KILLS = 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "app.db"
    connection = sqlite3.connect(file)
    connection.execute(LEDGER)
    connection.close()
    return file


def ledger(file: Path) -> list[tuple[str, int]]:
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rows = connection.execute("SELECT name, token FROM ledger ORDER BY place").fetchall()
    connection.close()
    return rows


def backward_steps(rows: list[tuple[str, int]]) -> list[tuple[str, int, int]]:
    tokens = defaultdict(list)
    for name, token in rows:
        tokens[name].append(token)
    return [
        (name, before, after)
        for name, written in tokens.items()
        for before, after in pairwise(written)
        if after <= before
    ]


@pytest.mark.timeout(120)
def test_kill_9_at_any_statement_loses_nothing(file: Path, record_property: Callable[[str, object], None]) -> None:
    workers = [Worker(file, *NAMES, first=number) for number in range(6)]
    killed: list[Worker] = []
    try:
        for number in range(KILLS):
            victim = workers.pop(0)
            victim.next()
            time.sleep(random.uniform(0, 0.005))  # somewhere in the middle of what it does next
            victim.kill()
            killed.append(victim)
            workers.append(Worker(file, *NAMES, first=number))
    finally:
        for worker in workers:
            worker.kill()
    said = {written for worker in killed + workers for written in worker.written}
    rows = ledger(file)
    assert len(said) >= KILLS
    assert said <= set(rows)
    assert len(set(rows)) == len(rows)
    assert backward_steps(rows) == []
    with Interlock(f"sqlite:///{file}") as locks:
        for name in NAMES:
            with locks.lease(name).acquire(timeout=20) as grant:
                assert grant.token > max(token for found, token in rows if found == name)
    record_property("figure", f"SQLite: {KILLS} processes killed, {len(rows)} writes, none lost, none out of turn")
