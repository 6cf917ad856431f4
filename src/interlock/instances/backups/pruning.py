"""Removing backups: asked for, or because enough newer ones are there."""

import asyncio
import uuid
from typing import Any

from interlock.durable import recording
from interlock.durable.declared import Orchestration
from interlock.errors import BackupBusy, BackupUnknown, IllegalTransition
from interlock.idempotency import Refused
from interlock.instances.backups.model import machine
from interlock.instances.backups.records import Backup, BackupRecords
from interlock.instances.backups.shelf import Shelf
from interlock.instances.surroundings import Surroundings
from interlock.instances.tasks import Task


class Pruning:
    """`orchestration` is the one that removes."""

    def __init__(self, here: Surroundings, orchestration: Orchestration[Task, None]) -> None:
        self._here = here
        self._orchestration = orchestration
        self._machine = machine(here.schema)
        self._records = BackupRecords(here.schema)

    async def delete(self, connection: Any, id: str) -> Backup:
        """Whatever is going on, unless it is just restored from. Of one that is being deleted nothing is changed."""
        backup = await self._records.lock(connection, id)
        if backup.state == "deleted":
            raise BackupUnknown(f"The backup {id} of {backup.instance_name} is deleted.")
        if backup.state == "deleting" and backup.working:
            return backup
        for (restoring,) in await self._records.ask(connection, "restoring", id):
            raise BackupBusy(
                f"{restoring} restores from the backup {id}: wait until that has ended.", orchestration=restoring
            )
        return await self._begin(connection, backup)

    async def prune(self, connection: Any, instance: str | None = None) -> list[str]:
        """Begin to remove those that are not to be kept, of that instance or of all: their ids.

        Those whose files are not seen from here are left, and stand for none of those that are to be kept: the disk
        of either may just not be mounted.
        """
        kept, begun = self._here.kept, []
        if not (kept.keep or kept.days):
            return []
        shelf, paths = Shelf(kept.directory), await self._records.ask(connection, "paths", instance)
        unseen = await asyncio.to_thread(lambda: [one for one, path in paths if not shelf.has(path)])
        for (old,) in await self._records.ask(connection, "prunable", instance, kept.keep, kept.days, unseen):
            # They are locked now, and a restore may have been asked for while they were sought.
            if not await self._records.ask(connection, "restoring", old):
                begun.append((await self._begin(connection, await self._records.lock(connection, old))).id)
        return begun

    async def _begin(self, connection: Any, backup: Backup) -> Backup:
        schema, after = self._here.schema, backup.orchestration if backup.working else None
        decision = await self._machine.apply(connection, backup.id, "delete")
        if isinstance(decision, Refused):
            raise IllegalTransition(
                f"The backup {backup.id} is {backup.state} and cannot be deleted.", state=backup.state, event="delete"
            )
        if after is not None:
            await recording.cancel(connection, schema, after, "The backup is deleted.")
        task = Task(backup.instance, new_id(backup.id, "delete_backup"), after=after, backup=backup.id)
        await self._records.ask(connection, "hand_over", backup.id, task.orchestration)
        await recording.record(connection, schema, self._orchestration, task.orchestration, task)
        return await self._records.read(connection, backup.id)


def new_id(backup: str, verb: str) -> str:
    return f"backup-{backup}-{verb}-{uuid.uuid4().hex[:8]}"
