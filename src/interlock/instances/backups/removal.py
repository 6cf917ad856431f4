"""Removing backups: asked for, or because enough newer ones are there."""

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
    """`orchestration` is the one that removes."""

    records: BackupRecords

    def __init__(self, context: InstanceContext, orchestration: Orchestration[Task, None]) -> None:
        super().__init__(BackupRecords(context.schema))
        self._context = context
        self._orchestration = orchestration

    async def delete(self, connection: Any, id: str, *, by: str = INTERLOCK) -> BackupRecord:
        """Whatever is going on, unless it is just restored from. Of one that is being deleted nothing is changed."""

        async def check(backup: BackupRecord) -> None:
            for (restoring,) in await self.records.fetch(connection, "restoring", id):
                raise BackupBusy(
                    f"{restoring} restores from the backup {id}: wait until that has ended.", orchestration=restoring
                )

        columns = {"begun_at": None}
        return await self.begin_deletion(connection, id, self._orchestration, by=by, columns=columns, check=check)

    async def prune(self, connection: Any, instance: str | None = None) -> list[str]:
        """Begin to remove those that are not to be kept, of that instance or of all: their ids.

        Those whose files are not seen from here are left, and stand for none of those that are to be kept: the disk
        of either may just not be mounted.
        """
        kept, begun = self._context.backup_settings, []
        if not (kept.keep or kept.days):
            return []
        backup_directory, paths = (
            BackupDirectory(kept.directory),
            await self.records.fetch(connection, "paths", instance),
        )
        unseen = await asyncio.to_thread(lambda: [one for one, path in paths if not backup_directory.has(path)])
        for (old,) in await self.records.fetch(connection, "prunable", instance, kept.keep, kept.days, unseen):
            # They are locked now, and a restore may have been asked for while they were sought.
            if not await self.records.fetch(connection, "restoring", old):
                begun.append((await self.delete(connection, old)).id)
        return begun
