"""The statements of leases.sql, and the writer's transaction, in which they are executed."""

import sqlite3
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from interlock.clock import boottime
from interlock.stores.sqlite.wakeups import WakeUpSender
from interlock.stores.statements import statements

SQL = statements("interlock.stores.sqlite", "leases.sql")


@dataclass
class WriteTransaction:
    """An open transaction that may write. The times `now` and `wall` were read after the transaction had begun.

    A job sets `durable` if its answer has to wait for the disk.
    """

    connection: sqlite3.Connection
    wake_up_sender: WakeUpSender
    durable: bool = False
    now: float = field(default_factory=boottime)
    wall: float = field(default_factory=time.time)
    wake_ups: dict[str, list[UUID]] = field(default_factory=dict)
    """Waiters to notify before COMMIT, by listener. An empty list tells a listener: all its waiters were removed."""

    _alive: dict[str, bool] = field(default_factory=dict)

    def is_alive(self, listener: str) -> bool:
        if listener not in self._alive:
            self._alive[listener] = self.wake_up_sender.is_alive(listener)
        return self._alive[listener]

    def execute(self, statement: str, *args: Any) -> sqlite3.Cursor:
        return self.connection.execute(statement, args)
