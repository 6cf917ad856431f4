"""Requests for the removal of backups: by a user, or because there are enough newer ones."""

import asyncio
from typing import Any

from interlock.aggregate.events import INTERLOCK
from interlock.aggregate.record import Task
from interlock.aggregate.requests import Requests
from interlock.durable.declarations import Orchestration
from interlock.errors import BackupBusy
from interlock.instances.backups.directory import BackupDirectory
from interlock.instances.backups.records import BackupRecord, BackupRecords
from interlock.instances.context import InstanceContext


class BackupRemoval(Requests[BackupRecord]):
    """`orchestration` is the orchestration that removes a backup."""

    records: BackupRecords

    def __init__(self, context: InstanceContext, orchestration: Orchestration[Task, None]) -> None:
        super().__init__(BackupRecords(context.schema))
        self._context = context
        self._orchestration = orchestration

    async def delete(self, connection: Any, id: str, *, by: str = INTERLOCK) -> BackupRecord:
        """Delete a backup, even while other work on it runs, but not while it is being restored.

        A backup that is being deleted is returned unchanged.
        """

        async def check(backup: BackupRecord) -> None:
            for (restoring,) in await self.records.fetch(connection, "restoring", id):
                raise BackupBusy(
                    f"The orchestration {restoring} restores the backup {id}: wait until that orchestration has ended.",
                    orchestration=restoring,
                )

        columns = {"begun_at": None}
        return await self.begin_deletion(connection, id, self._orchestration, by=by, columns=columns, check=check)

    async def prune(self, connection: Any, instance: str | None = None) -> list[str]:
        """Start the removal of backups that are not to be kept, of that instance or of all. Returns the backups' ids.

        A backup whose files this machine does not see is neither removed nor counted as kept, because the disk of the
        backups may not be mounted.
        """
        settings, started = self._context.backup_settings, []
        if not (settings.keep or settings.days):
            return []
        backup_directory, paths = (
            BackupDirectory(settings.directory),
            await self.records.fetch(connection, "paths", instance),
        )
        unseen = await asyncio.to_thread(lambda: [one for one, path in paths if not backup_directory.has(path)])
        for (old,) in await self.records.fetch(connection, "prunable", instance, settings.keep, settings.days, unseen):
            # A restore may have been requested before the query above locked the backup.
            if not await self.records.fetch(connection, "restoring", old):
                started.append((await self.delete(connection, old)).id)
        return started
