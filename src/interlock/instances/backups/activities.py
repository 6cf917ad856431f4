"""What orchestrations do to backups, step by step. Each step may be repeated.

Who may do what. As with instances: the record names the orchestration that works on the backup, and only the newest
attempt of that one writes there. Files have no such fence, so no attempt touches another's: see `shelf`. The rename
that makes an archive visible is done inside the transaction that says so, which no later attempt gets past.

What a crash leaves behind: rubbish, that the next attempt, the clean-up or `sweep` removes; and a pg_dump that runs on,
whose session the next attempt or the clean-up ends.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from interlock import errors
from interlock.durable.attempt import Attempt
from interlock.durable.declared import Activity, Orchestrations
from interlock.durable.retrying import Retry
from interlock.embedded.clients import clients_for
from interlock.idempotency import Refused
from interlock.instances.backups import programs
from interlock.instances.backups.asking import alone
from interlock.instances.backups.digesting import digested
from interlock.instances.backups.model import Event, State, machine
from interlock.instances.backups.records import Backup, BackupRecords
from interlock.instances.backups.restoring import LONGEST, damaged, major_of, usable
from interlock.instances.backups.shelf import Shelf
from interlock.instances.drivers.port import Endpoint
from interlock.instances.health import FOREVER
from interlock.instances.records import Instance, Records
from interlock.instances.surroundings import Surroundings
from interlock.instances.tasks import Failed, Task

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741

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
"""Another attempt would end the same."""
AT_ONCE = 3
"""So many dumps and checks: they take long, and others need the workers too."""
_TIMEOUT = 300.0


@dataclass(frozen=True)
class BackupMove:
    """An event of the backup's states; None: the work on it ends where it is, with that error."""

    task: Task
    event: Event | None
    failed: Failed | None = None


class BackupActivities:
    def __init__(self, work: Orchestrations, here: Surroundings) -> None:
        self._work = work
        self._here = here
        self._machine = machine(here.schema)
        self._records = BackupRecords(here.schema)
        self._instances = Records(here.schema)
        patient = replace(here.pace.retry, never=FINAL)
        self.take_turn = self._declared(self._take_turn, FOREVER)
        self.dump = self._declared(self._dump, patient, long=True)
        self.read_back = self._declared(self._read_back, patient, long=True)
        self.clear_away = self._declared(self._clear_away, patient)
        self.backup_standing = self._declared(self._backup_standing, FOREVER)
        self.move_backup = self._declared(self._move_backup, FOREVER)

    def _declared(
        self, function: Callable[[Attempt, I], Awaitable[O]], retry: Retry, *, long: bool = False
    ) -> Activity[I, O]:
        name = function.__name__.removeprefix("_")
        timeout = LONGEST if long else _TIMEOUT
        return self._work.activity(name=name, retry=retry, timeout=timeout, interruptible=long)(function)

    async def _take_turn(self, attempt: Attempt, task: Task) -> bool:
        async with self._owned(attempt, task) as (connection, backup):
            return bool(await self._records.ask(connection, "take_turn", backup.id, AT_ONCE, attempt.at))

    async def _dump(self, attempt: Attempt, task: Task) -> None:
        """Written where nobody looks, then renamed in the transaction that says that it is made."""
        async with self._owned(attempt, task) as (connection, backup):
            instance = await self._instances.read(connection, backup.instance)
        shelf = Shelf(self._here.kept.directory)
        if backup.state == "making":
            part = await asyncio.to_thread(shelf.begin, backup.stem, attempt.number)
            try:
                backup = await self._dump_into(part, shelf, attempt, task, backup, instance)
            finally:
                await asyncio.to_thread(shutil.rmtree, part, ignore_errors=True)
        await asyncio.to_thread(shelf.remove, backup.stem, backup.path)

    async def _dump_into(
        self, part: Path, shelf: Shelf, attempt: Attempt, task: Task, backup: Backup, instance: Instance
    ) -> Backup:
        driver, endpoint = self._here.driver(instance.driver), running(instance)
        purpose, archive = _purpose(backup), shelf.archive(part, backup.format)
        async with alone(driver, instance.id, endpoint, purpose, self._here.pace.check_timeout) as server:
            version = server.version
            clients = await asyncio.to_thread(clients_for, server.major, self._here.kept.pg_bin)
        await programs.dump(clients, endpoint, await driver.password(instance.id), purpose, backup.format, archive)
        size, sha256 = await digested(archive)
        async with self._owned(attempt, task) as (connection, _):
            values = {
                "path": shelf.keep(part, backup.stem, attempt.number, backup.format),
                "size_bytes": size,
                "sha256": sha256,
                "server_version": version,
                "program_version": ".".join(map(str, clients.version)),
                "working": False,
                "made_at": attempt.at,
                "updated_at": attempt.at,
            }
            await self._apply(connection, backup, "finish", values)
            await self._instances.note(connection, instance.id, "backup made", attempt.at, backup.id)
            return await self._records.read(connection, backup.id)

    async def _read_back(self, attempt: Attempt, task: Task) -> None:
        """Its files are what was written, and pg_restore reads them to their end."""
        async with self._owned(attempt, task) as (_, backup):
            archive = Shelf(self._here.kept.directory).locate(usable(backup))
        if await digested(archive) != (backup.size_bytes, backup.sha256):
            raise damaged(backup)
        major = major_of(backup.program_version)
        try:
            await programs.read_through(await asyncio.to_thread(clients_for, major, self._here.kept.pg_bin), archive)
        except errors.BackupFailed as error:
            raise errors.BackupDamaged(f"The backup {backup.id} cannot be read to its end: {error}") from error
        async with self._owned(attempt, task) as (connection, backup):
            await self._records.ask(connection, "verified", backup.id, attempt.at)
            await self._instances.note(connection, backup.instance, "backup verified", attempt.at, backup.id)

    async def _clear_away(self, attempt: Attempt, task: Task) -> None:
        """Everything of a backup that does not count, or not any more."""
        async with self._owned(attempt, task) as (connection, backup):
            if backup.state == "made":
                raise errors.InstanceOvertaken(f"The backup {backup.id} is made: its files stay.")
            instance = await self._instances.read(connection, backup.instance)
        if backup.path is None:
            await self._end_dumps(backup, instance)
        await asyncio.to_thread(Shelf(self._here.kept.directory).remove, backup.stem)

    async def _end_dumps(self, backup: Backup, instance: Instance) -> None:
        """Of workers that were killed: they hold locks. Those that cannot be told to end do so by themselves."""
        with suppress(errors.InterlockError, OSError):
            driver, endpoint = self._here.driver(instance.driver), running(instance)
            async with alone(driver, instance.id, endpoint, _purpose(backup), self._here.pace.check_timeout):
                pass

    async def _backup_standing(self, attempt: Attempt, task: Task) -> State | None:
        """How far the backup is; None if this task has ended, or another goes on with it."""
        assert task.backup is not None
        async with self._here.database.transaction() as connection:
            backup = await self._records.read(connection, task.backup)
        return backup.state if backup.working and backup.orchestration == task.orchestration else None

    async def _move_backup(self, attempt: Attempt, move: BackupMove) -> None:
        """The work on it ends."""
        async with self._owned(attempt, move.task) as (connection, backup):
            if not backup.working:
                return
            if move.event is not None:
                values = {"deleted_at": attempt.at} if move.event == "vanish" else {}
                await self._apply(connection, backup, move.event, values)
            why, at = move.failed, attempt.at
            await self._records.ask(connection, "finish", backup.id, why and why.message, why and why.code, at)
            kind = {"fail": "backup failed", "vanish": "backup deleted"}.get(move.event or "", "backup not verified")
            said = f"{backup.id} {why.message if why else ''}".strip()
            await self._instances.note(connection, backup.instance, kind, at, said)

    async def _apply(self, connection: Any, backup: Backup, event: Event, values: dict[str, Any]) -> None:
        decision = await self._machine.apply(connection, backup.id, event, values=values)
        if isinstance(decision, Refused):
            raise errors.InstanceOvertaken(f"The backup {backup.id} cannot {event}: {decision.reason}.")

    @asynccontextmanager
    async def _owned(self, attempt: Attempt, task: Task) -> AsyncIterator[tuple[Any, Backup]]:
        """A transaction that only the newest attempt of the orchestration that is named commits."""
        assert task.backup is not None
        async with self._here.database.transaction() as connection:
            await attempt.fence(connection)
            backup = await self._records.lock(connection, task.backup)
            if backup.orchestration != task.orchestration:
                raise errors.InstanceOvertaken(
                    f"{backup.orchestration} works on the backup {backup.id} now: leave it to that one."
                )
            yield connection, backup


def _purpose(backup: Backup) -> str:
    return f"backup {backup.id}"


def running(instance: Instance) -> Endpoint:
    """Where it listens."""
    if instance.state != "running" or instance.endpoint is None:
        raise errors.IllegalTransition(
            f"The instance {instance.name} is {instance.state}, and only a running one is backed up: start it first.",
            state=instance.state,
            event="back up",
        )
    return instance.endpoint
