"""What an operator sees of the leases in a file, and may do to them.

Looking changes nothing, and makes no file. A lease that is broken has no grant any more, so its holder's next renewal
fails; free it is when its time is over, as always, or at once if that is what the operator wants.
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
from interlock.stores.sqlite.wakeups import WakeUps


class SeenWaiter(NamedTuple):
    name: str
    holder: str | None
    host: str | None
    pid: int | None


class SeenLease(NamedTuple):
    """`remaining` is what is left until somebody else may have it. Times are seconds since 1970; those of a lease that
    nobody has held, and when one expired that was given back, are None."""

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
    """The record's value. `grant_id` is that of the broken grant."""

    token: int
    immediate: bool
    reason: str | None
    done_by: str
    done_at: float
    grant_id: str | None


class SqliteOperations(SqliteLeases):
    """Of a file that is there and has leases: anything else is told when it is made."""

    def __init__(self, path: Path, holder: Holder, timeout: float) -> None:
        _require_leases(path)
        super().__init__(path, holder, timeout)

    async def seen(self) -> tuple[list[SeenLease], list[SeenWaiter]]:
        """Everything, as it stood at one moment; waiters in the order of their queues."""

        def look(connection: sqlite3.Connection) -> tuple[list[SeenLease], list[SeenWaiter]]:
            looking = WriteTransaction(connection, WakeUps(self._file.beside))
            looking.execute("BEGIN")
            try:
                leases = looking.execute(SQL["all_leases"]).fetchall()
                waiters = looking.execute(SQL["all_waiters"]).fetchall()
            finally:
                looking.execute("COMMIT")
            return [_lease(row, looking) for row in leases], [
                SeenWaiter(*row[:4])
                for row in waiters
                if queue.is_waiting(looking, queue.QueueMember(*row[4:]), self._listener)
            ]

        return await self._read(look)

    async def intervention(self, name: str) -> SqliteIntervention | None:
        record = await self.read(name + BROKEN)
        return None if record is None else SqliteIntervention(**json.loads(record.value))

    async def break_lease(self, name: str, *, immediate: bool, reason: str | None, by: str) -> SeenLease | None:
        """As it was before; None: nobody holds it. Whoever is next is told, if it can have it at once."""

        def take(transaction: WriteTransaction) -> SeenLease | None:
            rows = transaction.execute(SQL["one_lease"], name).fetchall()
            seen = _lease(rows[0], transaction) if rows else None
            if seen is None or seen.remaining <= 0 or not (seen.has_grant or immediate):
                return None
            transaction.execute(SQL["break"], immediate, name)
            told = SqliteIntervention(seen.token, immediate, reason, by, transaction.wall, rows[0][2])
            transaction.execute(
                SQL["write_record"], name + BROKEN, seen.token, json.dumps(told._asdict()), transaction.wall
            )
            transaction.durable = True
            if immediate:
                queue.offer(transaction, name, self._listener)
            return seen

        return await self._write(take, patience=self._timeout)


def _lease(
    row: tuple[str, int, str | None, str | None, float, *tuple[object, ...]], looking: WriteTransaction
) -> SeenLease:
    name, token, grant_id, boot, until, *rest = row
    left = until - looking.now if boot == boot_id() else 0.0
    expires_at = looking.wall + left if until and boot == boot_id() else None
    return SeenLease(name, token, grant_id is not None, max(0.0, left), expires_at, *rest)  # type: ignore[arg-type]


def _require_leases(path: Path) -> None:
    """Without making anything: neither the file, if it is not there, nor tables in a file of somebody else's."""
    if not path.is_file():
        raise errors.DatabaseUnreachable(f"There is no file {path}: name the one that the leases are in.")
    LeaseFile(path).require_place()
    with translated(path):
        connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
        try:
            connection.execute("PRAGMA query_only = ON")
            if not has_tables(connection, path):
                raise errors.SchemaMissing(f"Nobody has used a lease in {path} yet: whoever does makes it ready.")
        finally:
            connection.close()
