"""The records of backups."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from interlock.aggregate.record import Record
from interlock.aggregate.table import RecordTable
from interlock.errors import BackupBusy, BackupUnknown
from interlock.instances.backups.model import TRANSITIONS, Format, State


@dataclass(frozen=True)
class BackupRecord(Record):
    """`path` is relative to the directory of backups. `begun_at` is the time when the work on the backup got its slot.

    `server_version` is the version of the instance, `program_version` is the version of the pg_dump that wrote the
    backup.
    """

    state: State
    instance: str
    instance_name: str
    format: Format
    path: str | None
    size_bytes: int | None
    sha256: str | None
    server_version: str | None
    program_version: str | None
    begun_at: datetime | None
    made_at: datetime | None
    verified_at: datetime | None

    @property
    def label(self) -> str:
        return f"{self.id} of {self.instance_name}"

    @property
    def stem(self) -> str:
        """The beginning of the paths of all files of the backup, relative to the directory of backups."""
        return f"{self.instance_name}/{self.created_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{self.id}"


class BackupRecords(RecordTable[BackupRecord]):
    record = BackupRecord
    table = "instance_backup"
    word = "backup"
    list_hint = "`interlock instance backups` shows those that exist"
    transitions = TRANSITIONS
    unknown = BackupUnknown
    busy = BackupBusy
    package = "interlock.instances.backups"
    filters: ClassVar = {"instance": "(t.instance = CAST({0} AS text) OR t.instance_name = CAST({0} AS text))"}

    async def find(self, connection: Any, id: str) -> BackupRecord:
        """Find a backup by its id, or by at least the first eight characters of its id."""
        rows = await self.fetch(connection, "find", id)
        if len(rows) > 1:
            raise BackupUnknown(f"More than one backup has an id that begins with {id!r}: give more of the id.")
        return self.one(rows, id)
