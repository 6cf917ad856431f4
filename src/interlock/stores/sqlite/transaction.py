"""The statements of leases.sql, and the transaction of the writer that they are executed in."""

import sqlite3
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from interlock.clock import boottime
from interlock.stores.sqlite.wakeups import WakeUps
from interlock.stores.statements import statements

SQL = statements("interlock.stores.sqlite", "leases.sql")


@dataclass
class WriteTransaction:
    """An open one that may write. `now` and `wall` were read after it had begun. `durable`, set by a job that needs it:
    it is not answered before it is on the disk."""

    connection: sqlite3.Connection
    bells: WakeUps
    durable: bool = False
    now: float = field(default_factory=boottime)
    wall: float = field(default_factory=time.time)
    rings: dict[str, list[UUID]] = field(default_factory=dict)
    """Whom to tell before COMMIT, by listener. Nobody: they were all given up."""

    _alive: dict[str, bool] = field(default_factory=dict)

    def is_alive(self, listener: str) -> bool:
        if listener not in self._alive:
            self._alive[listener] = self.bells.is_alive(listener)
        return self._alive[listener]

    def execute(self, statement: str, *args: Any) -> sqlite3.Cursor:
        return self.connection.execute(statement, args)
