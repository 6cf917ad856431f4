"""The records of backups.

Every function works in the transaction that is open on `connection`, which may be of any kind that Interlock knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any

from interlock import connections
from interlock.errors import BackupUnknown
from interlock.instances.backups.model import Format, State
from interlock.stores.postgres.queries import Queries


@dataclass(frozen=True)
class Backup:
    """`path` is relative to the directory of backups. `orchestration` works on it while `working`, since `begun_at` if
    it had its turn. `server_version` is the instance's, `program_version` that of the pg_dump that wrote it."""

    id: str
    instance: str
    instance_name: str
    format: Format
    state: State
    path: str | None
    size_bytes: int | None
    sha256: str | None
    server_version: str | None
    program_version: str | None
    error: str | None
    error_code: str | None
    orchestration: str
    working: bool
    begun_at: datetime | None
    created_at: datetime
    updated_at: datetime
    made_at: datetime | None
    verified_at: datetime | None
    deleted_at: datetime | None

    @property
    def stem(self) -> str:
        """What everything of it in the directory of backups is called by."""
        return f"{self.instance_name}/{self.created_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{self.id}"


@dataclass(frozen=True)
class BackupPage:
    """`following` is where the next one begins; None: that was the last."""

    backups: Sequence[Backup]
    following: str | None


class BackupRecords:
    """Those in one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = schema

    async def read(self, connection: Any, id: str) -> Backup:
        return _backup(await self.ask(connection, "read", id), id)

    async def lock(self, connection: Any, id: str) -> Backup:
        """Nobody else writes it until the transaction ends."""
        return _backup(await self.ask(connection, "lock", id), id)

    async def find(self, connection: Any, id: str) -> Backup:
        """By its id, or by the first eight characters of that, or more."""
        rows = await self.ask(connection, "find", id)
        if len(rows) > 1:
            raise BackupUnknown(f"There is more than one backup {id!r}…: give more of its id.")
        return _backup(rows, id)

    async def page(
        self,
        connection: Any,
        *,
        instance: str | None = None,
        states: Sequence[State] | None = None,
        deleted: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> BackupPage:
        """The newest first. `instance` is an id, or a name, also of one that is gone."""
        wanted = None if states is None else list(states)
        rows = await self.ask(connection, "list", instance, wanted, deleted, after, limit + 1)
        shown = [Backup(*row) for row in rows[:limit]]
        return BackupPage(shown, shown[-1].id if len(rows) > limit else None)

    async def ask(self, connection: Any, name: str, *args: Any) -> connections.Rows:
        statement = _queries(self.schema)[name].replace(":columns", _COLUMNS)
        return await connections.ask(connection, _rows(statement, args))


_COLUMNS = ", ".join(f"b.{field.name}" for field in fields(Backup))


@cache
def _queries(schema: str) -> Queries:
    return Queries("interlock.instances.backups", "queries.sql", schema)


def _rows(sql: str, args: Sequence[Any]) -> connections.Steps[connections.Rows]:
    return (yield sql, args)


def _backup(rows: connections.Rows, sought: str) -> Backup:
    if not rows:
        raise BackupUnknown(f"There is no backup {sought!r}: list those that there are.")
    return Backup(*rows[0])
