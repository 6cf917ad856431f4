"""Restoring a backup into an instance that runs.

It is one transaction of pg_restore's, so a crash leaves all of it or nothing; and whoever repeats it is told by the
server which of the two, as its number was written down before it was committed: see `relay`.
"""

import asyncio

from interlock.embedded.clients import Clients, clients_for
from interlock.errors import BackupDamaged, BackupUnusable
from interlock.instances.backups import programs
from interlock.instances.backups.digest import archive_digest
from interlock.instances.backups.directory import BackupDirectory
from interlock.instances.backups.records import BackupRecord, BackupRecords
from interlock.instances.backups.restore_proxy import Permit
from interlock.instances.backups.server_session import exclusive_session
from interlock.instances.context import InstanceContext
from interlock.instances.drivers.port import Driver, Endpoint
from interlock.instances.records import InstanceRecord

LONGEST = 12 * 3600.0
"""Seconds that a dump or a restore may take."""
_TIMEOUT_SETTING_SINCE = 17
"""Programs from here on set what servers before do not know, and in one transaction that is the end of it."""


class BackupRestore:
    def __init__(self, context: InstanceContext) -> None:
        self._context = context
        self._records = BackupRecords(context.schema)

    async def restore(
        self,
        id: str,
        instance: InstanceRecord,
        driver: Driver,
        endpoint: Endpoint,
        permit: Permit,
        permitted: str | None,
    ) -> None:
        """`permitted` is the transaction that an earlier attempt was let commit: if it did, all is done."""
        async with self._context.transactions.transaction() as connection:
            backup = await self._records.read(connection, id)
        purpose = f"restore {instance.id}"
        async with exclusive_session(
            driver, instance.id, endpoint, purpose, self._context.timing.check_timeout
        ) as server:
            if permitted is not None and await server.has_committed(permitted):
                return
        archive = await asyncio.to_thread(
            BackupDirectory(self._context.backup_settings.directory).locate, usable_path(backup)
        )
        written_by = major_of(backup.program_version)
        clients = await asyncio.to_thread(clients_for, written_by, self._context.backup_settings.pg_bin)
        _check_versions(backup, server.major, clients)
        if await archive_digest(archive) != (backup.size_bytes, backup.sha256):
            raise damaged(backup)
        password, grants = await driver.password(instance.id), backup.instance == instance.id
        await programs.restore(clients, endpoint, password, purpose, archive, grants=grants, permit=permit)


def usable_path(backup: BackupRecord) -> str:
    """Its path."""
    if backup.state != "made" or backup.path is None:
        raise BackupUnusable(
            f"The backup {backup.id} of {backup.instance_name} is {backup.state}: choose one that is made."
        )
    return backup.path


def damaged(backup: BackupRecord) -> BackupDamaged:
    return BackupDamaged(
        f"The backup {backup.id} of {backup.instance_name} is not what was written on {backup.created_at:%Y-%m-%d}: "
        "choose another, and look after the disk."
    )


def major_of(version: str | None) -> int:
    return int((version or "0").partition(".")[0])


def _check_versions(backup: BackupRecord, server: int, clients: Clients) -> None:
    if server < major_of(backup.server_version):
        raise BackupUnusable(
            f"The backup {backup.id} is of PostgreSQL {backup.server_version}, and the instance is {server}: restore "
            "it into one that is not older."
        )
    if server < _TIMEOUT_SETTING_SINCE <= clients.version[0]:
        raise BackupUnusable(
            f"The backup {backup.id} needs the pg_restore of PostgreSQL {clients.version[0]}, which an instance of "
            f"PostgreSQL {server} does not understand: install postgresql-client-{server}, or restore into a later one."
        )
