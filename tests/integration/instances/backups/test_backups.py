"""Backups are made, verified and removed; nothing remains of unsuccessful ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from interlock import errors
from interlock.aggregate.record import Task
from interlock.durable.attempt import Attempt
from interlock.instances.backups import programs
from interlock.instances.backups.digest import archive_digest
from interlock.instances.backups.model import BackupSettings
from interlock.instances.backups.records import BackupRecord, BackupRecords
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.records import InstanceRecord
from support.instances import Plane
from support.local_instances import as_owner
from support.paper_driver import SHARED
from support.postgres import execute
from support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.timeout(200)

FORMATS = pytest.mark.parametrize("kind", ["file", "directory"])


def shelf(keeping: BackupSettings) -> list[Path]:
    """The directories of all attempts on the disk."""
    return sorted(keeping.directory.glob("*/*"))


@asynccontextmanager
async def item_locked(real: LocalDriver) -> AsyncIterator[None]:
    """Lock the table, so that a dump waits, on a connection of its own: `owner` observes outside of transactions."""
    connection = await as_owner(real, SHARED)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE item")
            yield
    finally:
        await connection.close()


async def dumping(owner: "asyncpg.Connection[Any]", backup: BackupRecord, *, but: int = 0) -> int:
    """The server process of a pg_dump that waits for the test's lock."""
    query = (
        "SELECT pid FROM pg_stat_activity"
        " WHERE application_name = $1 AND wait_event_type = 'Lock' AND pid <> $2 AND query LIKE 'LOCK TABLE%'"
    )
    async with asyncio.timeout(PATIENCE):
        while (pid := await owner.fetchval(query, f"interlock backup {backup.id}", but)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert isinstance(pid, int)
    return pid


@pytest.mark.exhaustive(beyond=1)
@FORMATS
async def test_a_backup_of_a_running_instance_is_made_and_verified(
    plane: Plane, shop: InstanceRecord, keeping: BackupSettings, kind: str
) -> None:
    made = await plane.backed_up(shop.id, kind)
    assert (made.state, made.working, made.error, made.instance_name) == ("made", False, None, "shop")
    assert made.path is not None
    archive = keeping.directory / made.path
    assert archive.is_file() if kind == "file" else (archive / "toc.dat").is_file()
    assert shelf(keeping) == [archive.parent]
    assert (made.size_bytes, made.sha256) == await archive_digest(archive)
    assert {path.stat().st_mode & 0o077 for path in keeping.directory.rglob("*")} == {0}
    assert made.verified_at is None

    checked = await plane.backup_told(plane.backups.verify, made.id)
    assert (checked.state, checked.error, checked.working) == ("made", None, False)
    assert checked.verified_at is not None
    assert {event.kind: event.detail for event in await plane.events(shop.id)}["backup verified"] == made.id

    gone = await plane.backup_told(plane.backups.delete, made.id)
    assert (gone.state, gone.working, shelf(keeping)) == ("deleted", False, [])
    assert gone.deleted_at is not None
    with pytest.raises(errors.BackupUnknown, match="is deleted"):
        await plane.ask(plane.backups.delete, made.id)
    with pytest.raises(errors.BackupUnusable, match="is deleted: choose a backup that is made"):
        await plane.ask(plane.backups.restore, made.id, "again")


def damage(archive: Path, *, visibly: bool) -> None:
    """Damage the longest file: flip one bit, or append one byte, which pg_restore ignores."""
    file = archive if archive.is_file() else max(archive.iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    if visibly:
        content[len(content) // 2] ^= 1
    else:
        content.append(0)
    file.write_bytes(content)


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize(
    ("kind", "known"), [("file", False), ("directory", True)], ids=["by its digest", "by reading it"]
)
async def test_damage_is_found(
    plane: Plane, shop: InstanceRecord, keeping: BackupSettings, kind: str, known: bool
) -> None:
    made = await plane.backed_up(shop.id, kind)
    assert made.path is not None
    damage(keeping.directory / made.path, visibly=known)
    with_digest = (await archive_digest(keeping.directory / made.path))[1]
    if known:
        execute(plane.url, "UPDATE interlock.instance_backup SET sha256 = %s", with_digest)
    checked = await plane.backup_told(plane.backups.verify, made.id)
    assert (checked.state, checked.error_code, checked.verified_at) == ("failed", "backup_damaged", None)
    for verb in (plane.backups.verify, plane.backups.restore_into):
        with pytest.raises(errors.BackupUnusable, match="choose a backup that is made"):
            await plane.ask(verb, made.id, *([] if verb == plane.backups.verify else [shop.id]))
    await plane.backups.sweep()
    assert (keeping.directory / made.path).exists()  # an operator may want to inspect the remains
    assert (await plane.backup_told(plane.backups.delete, made.id)).state == "deleted"


@pytest.mark.exhaustive
async def test_a_backup_whose_files_are_not_visible_is_kept(
    plane: Plane, shop: InstanceRecord, keeping: BackupSettings
) -> None:
    made = await plane.backed_up(shop.id)
    hidden = keeping.directory.rename(keeping.directory.with_name("elsewhere"))
    checked = await plane.backup_told(plane.backups.verify, made.id)
    assert (checked.state, checked.error_code, checked.working) == ("made", "backup_missing", False)
    restored = await plane.told(plane.backups.restore_into, made.id, shop.id)
    assert (restored.state, restored.error_code) == ("running", "backup_missing")
    hidden.rename(keeping.directory)
    checked = await plane.backup_told(plane.backups.verify, made.id)
    assert (checked.error, checked.verified_at is None) == (None, False)


@pytest.mark.exhaustive
async def test_a_cancelled_backup_leaves_nothing(
    plane: Plane, shop: InstanceRecord, real: LocalDriver, owner: "asyncpg.Connection[Any]", keeping: BackupSettings
) -> None:
    async with item_locked(real):
        asked = await plane.ask(plane.backups.make, shop.id)
        pid = await dumping(owner, asked)
        [part] = shelf(keeping)
        part.with_name(part.name.replace(".1.part", ".0.part")).mkdir()  # of an attempt whose worker was killed
        await plane.durable.cancel(asked.orchestration, "not now")
        failed = await plane.backup_done(asked)
        assert (failed.state, failed.error) == ("failed", "The orchestration was cancelled: not now.")
        await asyncio.to_thread(eventually, lambda: shelf(keeping) == [])
        async with asyncio.timeout(PATIENCE):
            while await owner.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert (await plane.read(shop.id)).state == "running"


@pytest.mark.exhaustive
async def test_a_backup_that_is_being_made_can_be_deleted(
    plane: Plane, shop: InstanceRecord, real: LocalDriver, owner: "asyncpg.Connection[Any]", keeping: BackupSettings
) -> None:
    async with item_locked(real):
        asked = await plane.ask(plane.backups.make, shop.id, "directory")
        await dumping(owner, asked)
        with pytest.raises(errors.BackupBusy) as busy:
            await plane.ask(plane.backups.verify, asked.id)
        assert busy.value.orchestration == asked.orchestration
        left = await as_owner(real, SHARED)  # of a worker that was killed
        await left.execute(f"SET application_name = 'interlock backup {asked.id}'")
        gone = await plane.backup_told(plane.backups.delete, asked.id)
        assert (gone.state, gone.error) == ("deleted", None)
        with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.InterfaceError)):
            await left.fetchval("SELECT 1")
    await asyncio.to_thread(eventually, lambda: shelf(keeping) == [])


async def test_a_dump_that_is_cut_off_is_begun_again(
    plane: Plane, shop: InstanceRecord, real: LocalDriver, owner: "asyncpg.Connection[Any]", keeping: BackupSettings
) -> None:
    async with item_locked(real):
        asked = await plane.ask(plane.backups.make, shop.id)
        first = await dumping(owner, asked)
        await owner.execute("SELECT pg_terminate_backend($1)", first)
        await dumping(owner, asked, but=first)
    made = await plane.backup_done(asked)
    assert (made.state, len(shelf(keeping))) == ("made", 1)


async def test_a_step_that_is_repeated_after_it_was_lost_leaves_one_archive(
    plane: Plane, shop: InstanceRecord, keeping: BackupSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive is renamed, but the transaction that records it fails."""
    seen: list[list[Path]] = []
    real_apply = BackupRecords.apply_event

    async def lost(self: BackupRecords, *args: Any, **columns: Any) -> bool:
        seen.append(shelf(keeping))
        if len(seen) == 1:
            raise errors.ConnectionLost("The database went away: it comes back.")
        return await real_apply(self, *args, **columns)

    monkeypatch.setattr(BackupRecords, "apply_event", lost)
    made = await plane.backed_up(shop.id, "directory")
    assert [len(archives) for archives in seen] == [1, 2]
    assert (made.state, shelf(keeping)) == ("made", [(keeping.directory / str(made.path)).parent])
    assert (await plane.backup_told(plane.backups.verify, made.id)).verified_at is not None


async def test_an_attempt_that_was_overtaken_changes_nothing(
    plane: Plane, shop: InstanceRecord, real: LocalDriver, owner: "asyncpg.Connection[Any]", keeping: BackupSettings
) -> None:
    """Another replica begins the step while the first attempt still waits, and ends the dump of that attempt."""
    async with item_locked(real):
        asked = await plane.ask(plane.backups.make, shop.id)
        first = await dumping(owner, asked)
        [[step]] = execute(plane.url, "SELECT step FROM interlock.attempt ORDER BY step DESC LIMIT 1")
        task = Task(asked.id, asked.orchestration)
        number = "SELECT interlock.begin_attempt_v1(%s, %s, 1, %s)"
        execute(plane.url, number, asked.orchestration, asked.orchestration, step)
        [[count, at]] = execute(plane.url, "SELECT attempt, begun_at FROM interlock.attempt WHERE step = %s", step)
        ours = Attempt(asked.orchestration, asked.orchestration, 1, step, count, at, "interlock")
        ending = asyncio.create_task(plane.lifecycle.backups._activities._dump(ours, task))
        second = await dumping(owner, asked, but=first)
        assert not await owner.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", first)
    assert second != first
    with suppress(errors.AttemptSuperseded, errors.StoreError):  # the first one's replica tries again, and overtakes us
        await ending
    made = await plane.backup_done(asked)
    assert (made.state, shelf(keeping)) == ("made", [(keeping.directory / str(made.path)).parent])
    assert (await plane.backup_told(plane.backups.verify, made.id)).verified_at is not None


@pytest.mark.exhaustive
async def test_a_backup_fails_if_its_instance_is_deleted_meanwhile(
    plane: Plane, shop: InstanceRecord, real: LocalDriver, owner: "asyncpg.Connection[Any]", keeping: BackupSettings
) -> None:
    async with item_locked(real):
        asked = await plane.ask(plane.backups.make, shop.id)
        pid = await dumping(owner, asked)
        assert (await plane.told(plane.instances.stop, shop.id)).state == "stopped"
        await owner.execute("SELECT pg_terminate_backend($1)", pid)  # as its server does when it stops
        failed = await plane.backup_done(asked)
    assert (failed.state, failed.error_code, shelf(keeping)) == ("failed", "illegal_transition", [])
    assert "shop is stopped" in (failed.error or "")
    with pytest.raises(errors.IllegalTransition, match="shop is stopped"):
        await plane.ask(plane.backups.make, shop.id)


@pytest.mark.exhaustive
async def test_a_backup_that_waits_too_long_for_a_table_frees_its_slot(
    plane: Plane, shop: InstanceRecord, real: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_LOCKS_WITHIN", 1)
    async with item_locked(real):
        failed = await plane.backed_up(shop.id)
    assert (failed.state, failed.error_code, failed.working) == ("failed", "backup_failed", False)
    assert "for a table that another transaction has locked" in (failed.error or "")


async def test_invalid_requests_are_refused(plane: Plane, shop: InstanceRecord) -> None:
    with pytest.raises(errors.BadSpec, match="use file or directory"):
        await plane.ask(plane.backups.make, shop.id, "tar")
    with pytest.raises(errors.InstanceUnknown):
        await plane.ask(plane.backups.make, "unknown")
    with pytest.raises(errors.BackupUnknown):
        await plane.ask(plane.backups.records.find, "nothing")


async def test_backups_are_listed_the_newest_first_and_found_by_the_beginning_of_their_id(
    plane: Plane, shop: InstanceRecord
) -> None:
    made = [await plane.backed_up(shop.id) for _ in range(3)]
    newest_first = [one.id for one in reversed(made)]
    page = await plane.ask(plane.backups.records.page, descending=True, instance="shop", limit=2)
    rest = await plane.ask(plane.backups.records.page, descending=True, instance=shop.id, limit=2, after=page.following)
    assert [one.id for one in (*page.items, *rest.items)] == newest_first
    assert rest.following is None
    assert (await plane.ask(plane.backups.records.page, descending=True, instance="other")).items == []
    assert (await plane.ask(plane.backups.records.find, made[0].id[:8])).id == made[0].id
    execute(plane.url, "UPDATE interlock.instance SET driver = 'cloud'")
    with pytest.raises(errors.BadSpec, match="of the driver cloud, which is not set up: name one of these: paper"):
        await plane.ask(plane.backups.restore, made[0].id, "again")
