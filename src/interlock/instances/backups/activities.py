"""The steps of orchestrations on backups. `interlock.aggregate.effects` describes which step may write a record.

Files have no fence, so each attempt writes only its own files; see `directory`. The rename that makes an archive
visible happens inside the fenced transaction that records it.

Crashes: a crash leaves files that the next attempt, the clean-up or `sweep` removes, and perhaps a pg_dump that is
still running. The next attempt or the clean-up ends the session of that pg_dump.
"""

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from interlock import errors
from interlock.aggregate.effects import Effects
from interlock.aggregate.record import Task, Transition
from interlock.durable.attempt import Attempt
from interlock.durable.declarations import FOREVER, Orchestrations
from interlock.embedded.clients import clients_for
from interlock.instances.backups import programs
from interlock.instances.backups.digest import archive_digest
from interlock.instances.backups.directory import BackupDirectory
from interlock.instances.backups.records import BackupRecord, BackupRecords
from interlock.instances.backups.restoration import LONGEST, damaged, major_of, usable_path
from interlock.instances.backups.server_session import exclusive_session
from interlock.instances.context import InstanceContext
from interlock.instances.drivers.port import Endpoint
from interlock.instances.records import InstanceRecord, InstanceRecords

FINAL = (
    errors.BackupDamaged,
    errors.BackupFailed,
    errors.BackupUnusable,
    errors.BinariesMissing,
    errors.ConfigurationError,
    errors.IllegalTransition,
    errors.InstanceAbsent,
    errors.OutOfSpace,
)
"""Errors after which another attempt would fail in the same way."""
AT_ONCE = 3
"""The number of concurrent dumps and checks. They take long, and other activities need workers too."""
_INSTANCE_EVENTS = {"fail": "backup failed", "vanish": "backup deleted"}
"""The events of the instance's history, by the event of the backup."""


class BackupActivities(Effects[BackupRecord]):
    def __init__(self, work: Orchestrations, context: InstanceContext) -> None:
        super().__init__(
            work, BackupRecords(context.schema), context.transactions, replace(context.timing.retry, never=FINAL)
        )
        self._context = context
        self._instances = InstanceRecords(context.schema)
        self.acquire_slot = self.activity(self._acquire_slot, FOREVER)
        self.dump = self.activity(self._dump, timeout=LONGEST, interruptible=True)
        self.read_back = self.activity(self._read_back, timeout=LONGEST, interruptible=True)
        self.clear_away = self.activity(self._clear_away)

    async def _acquire_slot(self, attempt: Attempt, task: Task) -> bool:
        async with self.owned(attempt, task) as (connection, backup):
            return bool(await self._records.fetch(connection, "acquire_slot", backup.id, AT_ONCE, attempt.at))

    async def _dump(self, attempt: Attempt, task: Task) -> None:
        """Write to a hidden directory, and rename it in the transaction that records the backup as made."""
        async with self.owned(attempt, task) as (connection, backup):
            instance = await self._instances.read(connection, backup.instance)
        backup_directory = BackupDirectory(self._context.backup_settings.directory)
        if backup.state == "making":
            part = await asyncio.to_thread(backup_directory.begin, backup.stem, attempt.number)
            try:
                backup = await self._dump_into(part, backup_directory, attempt, task, backup, instance)
            finally:
                await asyncio.to_thread(shutil.rmtree, part, ignore_errors=True)
        await asyncio.to_thread(backup_directory.remove, backup.stem, backup.path)

    async def _dump_into(
        self,
        part: Path,
        backup_directory: BackupDirectory,
        attempt: Attempt,
        task: Task,
        backup: BackupRecord,
        instance: InstanceRecord,
    ) -> BackupRecord:
        driver, endpoint = self._context.driver(instance.driver), running_endpoint(instance)
        purpose, archive = _purpose(backup), backup_directory.archive(part, backup.format)
        async with exclusive_session(
            driver, instance.id, endpoint, purpose, self._context.timing.check_timeout
        ) as server:
            version = server.version
            clients = await asyncio.to_thread(clients_for, server.major, self._context.backup_settings.pg_bin)
        await programs.dump(clients, endpoint, await driver.password(instance.id), purpose, backup.format, archive)
        size, sha256 = await archive_digest(archive)
        async with self.owned(attempt, task) as (connection, _):
            values = {
                "path": backup_directory.publish(part, backup.stem, attempt.number, backup.format),
                "size_bytes": size,
                "sha256": sha256,
                "server_version": version,
                "program_version": ".".join(map(str, clients.version)),
                "working": False,
                "made_at": attempt.at,
                "updated_at": attempt.at,
            }
            await self._records.apply_event(connection, backup, "finish", **values)
            await self.note(connection, attempt, task, "finish")
            await self._note_on_instance(connection, attempt, task, backup, "backup made", backup.id)
            return await self._records.read(connection, backup.id)

    async def _read_back(self, attempt: Attempt, task: Task) -> None:
        """Check that the files are unchanged, and that pg_restore reads them to their end."""
        async with self.owned(attempt, task) as (_, backup):
            archive = BackupDirectory(self._context.backup_settings.directory).locate(usable_path(backup))
        if await archive_digest(archive) != (backup.size_bytes, backup.sha256):
            raise damaged(backup)
        major = major_of(backup.program_version)
        try:
            await programs.read_through(
                await asyncio.to_thread(clients_for, major, self._context.backup_settings.pg_bin), archive
            )
        except errors.BackupFailed as error:
            raise errors.BackupDamaged(f"The backup {backup.id} cannot be read to its end: {error}") from error
        async with self.owned(attempt, task) as (connection, backup):
            verified = {"working": False, "error": None, "error_code": None, "verified_at": attempt.at}
            await self._records.change(connection, backup.id, attempt.at, **verified)
            await self.note(connection, attempt, task, "verified")
            await self._note_on_instance(connection, attempt, task, backup, "backup verified", backup.id)

    async def _clear_away(self, attempt: Attempt, task: Task) -> None:
        """Remove all files of a backup that is unfinished, failed or being deleted."""
        async with self.owned(attempt, task) as (connection, backup):
            if backup.state == "made":
                raise errors.RecordOvertaken(f"The backup {backup.id} is made: leave its files.")
            instance = await self._instances.read(connection, backup.instance)
        if backup.path is None:
            await self._end_dumps(backup, instance)
        await asyncio.to_thread(BackupDirectory(self._context.backup_settings.directory).remove, backup.stem)

    async def _end_dumps(self, backup: BackupRecord, instance: InstanceRecord) -> None:
        """End the dumps of killed workers, because the dumps hold locks.

        Dumps that cannot be ended in this way end by themselves.
        """
        with suppress(errors.InterlockError, OSError):
            driver, endpoint = self._context.driver(instance.driver), running_endpoint(instance)
            async with exclusive_session(
                driver, instance.id, endpoint, _purpose(backup), self._context.timing.check_timeout
            ):
                pass

    async def transition_columns(
        self, connection: Any, record: BackupRecord, transition: Transition, attempt: Attempt
    ) -> Mapping[str, Any]:
        """Note the transition in the history of the backup's instance too."""
        kind = _INSTANCE_EVENTS.get(transition.event or "", "backup not verified")
        said = f"{record.id} {transition.failure.message if transition.failure else ''}".strip()
        await self._note_on_instance(connection, attempt, transition.task, record, kind, said)
        return {}

    async def _note_on_instance(
        self, connection: Any, attempt: Attempt, task: Task, backup: BackupRecord, kind: str, detail: str
    ) -> None:
        await self._instances.events.note(
            connection, backup.instance, kind, attempt.at, detail, orchestration=task.orchestration
        )


def _purpose(backup: BackupRecord) -> str:
    return f"backup {backup.id}"


def running_endpoint(instance: InstanceRecord) -> Endpoint:
    """Returns the endpoint of a running instance. Raises `IllegalTransition` if the instance is not running."""
    if instance.state != "running" or instance.endpoint is None:
        raise errors.IllegalTransition(
            f"The instance {instance.name} is {instance.state}, and only a running one can be backed up: start "
            "it first.",
            state=instance.state,
            event="back up",
        )
    return instance.endpoint
