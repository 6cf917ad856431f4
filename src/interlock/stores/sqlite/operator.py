"""Lists and breaks the leases in a file, for operators.

Listing changes nothing and creates no file. A broken lease has no grant any more, so its holder's next renewal fails.
The lease becomes free when it expires, when its holder releases it, or at once if the operator wants that.
"""

import json
import sqlite3
from pathlib import Path
from typing import NamedTuple

from interlock import errors
from interlock.stores.leases import Holder
from interlock.stores.sqlite import queue
from interlock.stores.sqlite.boot import boot_id
from interlock.stores.sqlite.decisions import BROKEN
from interlock.stores.sqlite.driver_errors import translated
from interlock.stores.sqlite.file import LeaseFile, has_tables
from interlock.stores.sqlite.leases import SqliteLeases
from interlock.stores.sqlite.transaction import SQL, WriteTransaction
from interlock.stores.sqlite.wakeups import WakeUpSender


class WaiterSnapshot(NamedTuple):
    name: str
    holder: str | None
    host: str | None
    pid: int | None


class LeaseSnapshot(NamedTuple):
    """`remaining` is the seconds until another process may take the lease. Times are seconds since 1970.

    `acquired_at` is None for a lease that was never held; `expires_at` is None also for a lease that was released.
    """

    name: str
    token: int
    has_grant: bool
    remaining: float
    expires_at: float | None
    ttl: float
    holder: str | None
    host: str | None
    pid: int | None
    metadata: str | None
    acquired_at: float | None
    used_at: float


class SqliteIntervention(NamedTuple):
    """The value of the record of a break. `grant_id` is the id of the broken grant."""

    token: int
    immediate: bool
    reason: str | None
    done_by: str
    done_at: float
    grant_id: str | None


class SqliteOperations(SqliteLeases):
    """Operations on a file that exists and has leases. The constructor raises an error for any other file."""

    def __init__(self, path: Path, holder: Holder, timeout: float) -> None:
        _require_leases(path)
        super().__init__(path, holder, timeout)

    async def snapshot(self) -> tuple[list[LeaseSnapshot], list[WaiterSnapshot]]:
        """Returns all leases and waiters at one moment. The waiters are in the order of their queues."""

        def read_all(connection: sqlite3.Connection) -> tuple[list[LeaseSnapshot], list[WaiterSnapshot]]:
            transaction = WriteTransaction(connection, WakeUpSender(self._file.side_directory))
            transaction.execute("BEGIN")
            try:
                leases = transaction.execute(SQL["all_leases"]).fetchall()
                waiters = transaction.execute(SQL["all_waiters"]).fetchall()
            finally:
                transaction.execute("COMMIT")
            return [_lease(row, transaction) for row in leases], [
                WaiterSnapshot(*row[:4])
                for row in waiters
                if queue.is_waiting(transaction, queue.QueueMember(*row[4:]), self._listener)
            ]

        return await self._read(read_all)

    async def intervention(self, name: str) -> SqliteIntervention | None:
        record = await self.read(name + BROKEN)
        return None if record is None else SqliteIntervention(**json.loads(record.value))

    async def break_lease(self, name: str, *, immediate: bool, reason: str | None, by: str) -> LeaseSnapshot | None:
        """Returns the lease as it was before the break, or None if it was not held. `immediate` also frees it."""

        def break_it(transaction: WriteTransaction) -> LeaseSnapshot | None:
            rows = transaction.execute(SQL["one_lease"], name).fetchall()
            lease = _lease(rows[0], transaction) if rows else None
            if lease is None or lease.remaining <= 0 or not (lease.has_grant or immediate):
                return None
            transaction.execute(SQL["break"], immediate, name)
            intervention = SqliteIntervention(lease.token, immediate, reason, by, transaction.wall, rows[0][2])
            transaction.execute(
                SQL["write_record"], name + BROKEN, lease.token, json.dumps(intervention._asdict()), transaction.wall
            )
            transaction.durable = True
            if immediate:
                queue.offer(transaction, name, self._listener)
            return lease

        return await self._write(break_it, lock_timeout=self._timeout)


def _lease(
    row: tuple[str, int, str | None, str | None, float, *tuple[object, ...]], transaction: WriteTransaction
) -> LeaseSnapshot:
    name, token, grant_id, boot, until, *rest = row
    remaining = until - transaction.now if boot == boot_id() else 0.0
    expires_at = transaction.wall + remaining if until and boot == boot_id() else None
    return LeaseSnapshot(name, token, grant_id is not None, max(0.0, remaining), expires_at, *rest)  # type: ignore[arg-type]


def _require_leases(path: Path) -> None:
    """Raises an error if the file has no leases. Creates neither a missing file nor missing tables."""
    if not path.is_file():
        raise errors.DatabaseUnreachable(f"The file {path} does not exist: name the file that has the leases.")
    LeaseFile(path).require_place()
    with translated(path):
        connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
        try:
            connection.execute("PRAGMA query_only = ON")
            if not has_tables(connection, path):
                raise errors.SchemaMissing(
                    f"{path} has no leases yet: name the file that has the leases, or use a lease in this file first."
                )
        finally:
            connection.close()
