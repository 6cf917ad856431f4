"""Plain SQLite: a row is taken and freed in two transactions; its busy handler polls with growing pauses."""

import sqlite3
import time
from dataclasses import asdict
from typing import Any

from benchmarks.loads.protocol import Order, Settings, serve
from benchmarks.loads.tally import Tally

_TIMEOUT = 60


def main(settings: Settings) -> None:
    connection = sqlite3.connect(settings["url"].removeprefix("sqlite:///"), timeout=_TIMEOUT, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS lease (name TEXT PRIMARY KEY, holder TEXT)")
    connection.execute("INSERT OR IGNORE INTO lease VALUES (?, NULL)", (settings["name"],))

    def turn(order: Order) -> Any:
        tally = Tally()
        while (begun_at := time.monotonic()) < order["until"]:
            for holder in ("me", None):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("UPDATE lease SET holder = ? WHERE name = ?", (holder, settings["name"]))
                connection.execute("COMMIT")
            tally.note(begun_at)
        return asdict(tally)

    serve(turn)
