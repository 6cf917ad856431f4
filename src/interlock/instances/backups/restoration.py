"""The restore of a backup into a running instance.

A restore is one transaction of pg_restore, so a crash leaves all of it or nothing. The number of the transaction is
recorded before its commit, so the server can report to the next attempt whether it was committed; see `restore_proxy`.
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
"""pg_restore sets a parameter from this version on. Older servers do not know it, and the transaction would fail."""


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
        """Restore the backup `id`, unless `permitted` has committed.

        `permitted` is the transaction that an earlier attempt was permitted to commit.
        """
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
    """Returns the path of a usable backup. Raises `BackupUnusable` if the backup is not usable."""
    if backup.state != "made" or backup.path is None:
        raise BackupUnusable(
            f"The backup {backup.id} of {backup.instance_name} is {backup.state}: choose a backup that is made."
        )
    return backup.path


def damaged(backup: BackupRecord) -> BackupDamaged:
    return BackupDamaged(
        f"The backup {backup.id} of {backup.instance_name} has changed since it was written on "
        f"{backup.created_at:%Y-%m-%d}: choose another backup, and check the disk."
    )


def major_of(version: str | None) -> int:
    return int((version or "0").partition(".")[0])


def _check_versions(backup: BackupRecord, server: int, clients: Clients) -> None:
    if server < major_of(backup.server_version):
        raise BackupUnusable(
            f"The backup {backup.id} is of PostgreSQL {backup.server_version}, and the instance is {server}: restore "
            "the backup into an instance that is not older."
        )
    if server < _TIMEOUT_SETTING_SINCE <= clients.version[0]:
        raise BackupUnusable(
            f"The backup {backup.id} needs the pg_restore of PostgreSQL {clients.version[0]}, which a server of "
            f"PostgreSQL {server} does not understand: install postgresql-client-{server}, or restore into a newer "
            "instance."
        )
