"""Requests for backups. A request is part of the caller's transaction, and takes effect when the transaction commits.

Permissions: a request locks the record of the backup. While an orchestration works on the record, only `delete` is
accepted. A backup that is being restored cannot be deleted: both requests lock the record, so the second one sees the
first.

An instance is not backed up during a restore into it, and not restored during a backup of it. A dump that waits for
tables which a restore replaces would see the new tables, but no row in them, because its snapshot is older. Both
requests lock the instance.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from interlock.aggregate.events import INTERLOCK
from interlock.aggregate.requests import Requests
from interlock.errors import BackupBusy, BackupUnknown, BadSpec
from interlock.instances.backups.activities import running_endpoint
from interlock.instances.backups.directory import BackupDirectory, remove_all
from interlock.instances.backups.model import backup_format
from interlock.instances.backups.records import BackupRecord, BackupRecords
from interlock.instances.backups.restoration import major_of, usable_path
from interlock.instances.model import major_version
from interlock.instances.records import InstanceRecord
from interlock.instances.requests import Instances
from interlock.logs import events

log = events(__name__)


class Backups(Requests[BackupRecord]):
    records: BackupRecords

    def __init__(self, instances: Instances) -> None:
        super().__init__(BackupRecords(instances.records.schema))
        self._instances = instances
        self._lifecycle = instances.lifecycle
        self._context = self._lifecycle.context
        self._work = self._lifecycle.backups

    async def make(
        self,
        connection: Any,
        instance: str,
        format: str = "file",
        *,
        id: str | None = None,
        by: str = INTERLOCK,
    ) -> BackupRecord:
        """Back up a running instance; `instance` is its id.

        A backup that was requested under the same `id` before is returned, and no other one is made.
        """
        wanted, _ = backup_format(format), self._context.backup_settings
        if earlier := await self.find_repeated(connection, id):
            return earlier
        found = await self._instances.lock_idle(connection, instance)
        running_endpoint(found)
        columns = {"instance": instance, "instance_name": found.name, "format": wanted}
        backup = await self.insert(connection, id or str(uuid.uuid4()), columns, self._work.make, by=by)
        await self._instances.records.events.note(
            connection,
            instance,
            "backup requested",
            backup.created_at,
            backup.id,
            actor=by,
            orchestration=backup.orchestration,
        )
        return backup

    async def verify(self, connection: Any, id: str, *, by: str = INTERLOCK) -> BackupRecord:
        backup = await self.lock_idle(connection, id)
        usable_path(backup)
        return await self.begin(connection, backup, None, self._work.verify, by=by, columns={"begun_at": None})

    async def delete(self, connection: Any, id: str, *, by: str = INTERLOCK) -> BackupRecord:
        """See `BackupRemoval.delete`."""
        return await self._work.pruning.delete(connection, id, by=by)

    async def restore(
        self,
        connection: Any,
        id: str,
        name: str,
        *,
        driver: str | None = None,
        dns_name: str | None = None,
        version: str | int | None = None,
        storage: str | int | None = None,
        parameters: Mapping[str, str | int | float | bool] | None = None,
        tags: Mapping[str, str] | None = None,
        new_id: str | None = None,
        by: str = INTERLOCK,
    ) -> InstanceRecord:
        """Restore into a new instance. Driver and major version default to those of the instance that was backed up.

        An instance that was created under `new_id` before is returned, and no other one is created.
        """
        backup = await self.records.lock(connection, id)
        usable_path(backup)
        oldest = major_of(backup.server_version)
        wanted = major_version(version) or str(oldest)
        if int(wanted) < oldest:
            raise BadSpec(
                f"The backup {id} is of PostgreSQL {oldest}, and cannot be restored into {wanted}: use {oldest} or "
                "later."
            )
        if driver is None:
            driver = (await self._instances.records.read(connection, backup.instance)).driver
            if driver not in self._context.drivers:
                known = ", ".join(sorted(self._context.drivers))
                raise BadSpec(
                    f"The backup {id} is of the driver {driver}, which is not set up: name one of these: {known}."
                )
        return await self._instances.create(
            connection,
            name,
            driver=driver,
            dns_name=dns_name,
            version=wanted,
            storage=storage,
            parameters=parameters,
            tags=tags,
            backup=id,
            id=new_id,
            by=by,
        )

    async def restore_into(
        self,
        connection: Any,
        id: str,
        instance: str,
        *,
        key: str | None = None,
        by: str = INTERLOCK,
        check: Callable[[InstanceRecord], Awaitable[None]] | None = None,
    ) -> InstanceRecord:
        """Restore into a running instance; `instance` is its id. Objects of the backup replace existing ones.

        `check` may raise an error to refuse the restore. A request with a known `key` is not repeated: a second restore
        would lose the data that was written since the first one.
        """
        backup = await self.records.lock(connection, id)
        if key and (before := await self._instances.requested_before(connection, instance, key)):
            return before
        usable_path(backup)
        found = await self._instances.lock_idle(connection, instance)
        if check is not None:
            await check(found)
        for unfinished, orchestration in await self.records.fetch(connection, "making", instance):
            raise BackupBusy(
                f"The backup {unfinished} of {found.name} is being made: wait until it is made, or delete it.",
                orchestration=orchestration,
            )
        return await self._instances.restore(connection, instance, id, key=key, by=by)

    async def prune(self, connection: Any) -> list[str]:
        """Start the removal of backups that are not to be kept, of all instances. Returns the ids of these backups."""
        return await self._work.pruning.prune(connection)

    async def clean_up(self) -> None:
        """Run the periodic job: prune and sweep."""
        if self._context.backups is not None:
            async with self._context.transactions.transaction() as connection:
                await self.prune(connection)
            await self.sweep()

    async def sweep(self) -> int:
        """Remove directories that crashes left behind. Returns the number of removed directories."""
        backup_directory, swept = BackupDirectory(self._context.backup_settings.directory), 0
        for owner, place in await asyncio.to_thread(lambda: list(backup_directory.entries())):
            async with self._context.transactions.transaction() as connection:
                try:
                    backup = await self.records.read(connection, owner)
                except BackupUnknown:  # it may belong to another control plane
                    continue
            whole = backup_directory.root / backup.path if backup.path else None
            counts = whole is not None and whole.parent == place and backup.state != "deleted"
            if backup.state in ("made", "failed", "deleted") and not counts:
                try:
                    await asyncio.to_thread(remove_all, place)
                    swept += 1
                except OSError as error:  # the others are removed all the same
                    log.warning("backups.not_swept", extra={"place": str(place), "why": str(error)})
        return swept
