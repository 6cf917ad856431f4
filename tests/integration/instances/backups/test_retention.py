"""The retention of backups: what is pruned, what is swept, and what blocks a removal."""

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock import errors
from interlock.instances.backups.model import BackupSettings
from interlock.instances.backups.records import BackupRecords
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.records import InstanceRecord
from support.components import lacking
from support.instances import Plane, control_plane
from support.local_instances import connected
from support.paper_driver import SHARED, PaperDriver
from support.postgres import execute

pytestmark = pytest.mark.timeout(200)


@pytest.fixture
def keeping(keeping: BackupSettings) -> BackupSettings:
    return replace(keeping, keep=2)


@pytest.fixture
async def shop(plane: Plane) -> InstanceRecord:
    return await plane.created("shop")


def archives(keeping: BackupSettings) -> set[Path]:
    return {path.parent for path in keeping.directory.rglob("archive.dump")}


async def test_the_newest_stay_and_the_oldest_goes_with_its_files(
    plane: Plane, shop: InstanceRecord, keeping: BackupSettings
) -> None:
    other = await plane.backed_up((await plane.created("other")).id)
    made = [await plane.backed_up(shop.id) for _ in range(3)]
    gone = await plane.backup_done(await plane.read_backup(made[0].id))
    assert gone.state == "deleted"
    kept = [await plane.read_backup(one.id) for one in (other, *made[1:])]
    assert [one.state for one in kept] == ["made"] * 3
    assert archives(keeping) == {(keeping.directory / str(one.path)).parent for one in kept}


@pytest.mark.exhaustive
async def test_backups_on_an_unmounted_disk_and_their_replacements_stay(
    plane: Plane, shop: InstanceRecord, keeping: BackupSettings
) -> None:
    made = [await plane.backed_up(shop.id) for _ in range(2)]
    mounted = keeping.directory.rename(keeping.directory.with_name("mounted"))
    elsewhere = [await plane.backed_up(shop.id) for _ in range(2)]
    keeping.directory.rename(keeping.directory.with_name("below"))
    mounted.rename(keeping.directory)
    assert await plane.ask(plane.backups.prune) == []
    newest = await plane.backed_up(shop.id)
    assert (await plane.backup_done(await plane.read_backup(made[0].id))).state == "deleted"
    kept = [await plane.read_backup(one.id) for one in (made[1], *elsewhere, newest)]
    assert [one.state for one in kept] == ["made"] * 4


@pytest.mark.exhaustive
async def test_pruning_by_age_keeps_the_newest(plane: Plane, shop: InstanceRecord) -> None:
    made = [await plane.backed_up(shop.id) for _ in range(2)]
    execute(plane.url, "UPDATE interlock.instance_backup SET created_at = created_at - interval '3 days'")
    assert await plane.ask(plane.backups.prune) == []
    object.__setattr__(plane.lifecycle.context.backup_settings, "days", 2.0)
    await plane.backups.clean_up()
    assert [(await plane.read_backup(one.id)).state for one in made] in (["deleting", "made"], ["deleted", "made"])
    assert await plane.ask(plane.backups.prune) == []
    assert (await plane.backup_done(await plane.read_backup(made[0].id))).state == "deleted"


def seeking_first(id: str) -> Callable[..., Awaitable[Any]]:  # noqa: A002
    """Let the query for backups to prune return this backup, as if it had run before everything else."""
    real_fetch = BackupRecords.fetch

    async def fetch(self: BackupRecords, connection: Any, name: str, *args: Any) -> Any:
        return [(id,)] if name == "prunable" else await real_fetch(self, connection, name, *args)

    return fetch


@pytest.mark.exhaustive
async def test_a_backup_that_is_being_restored_stays(
    plane: Plane, shop: InstanceRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await plane.created("other")
    made = [await plane.backed_up(shop.id) for _ in range(2)]
    unfinished = "SELECT interlock.record_orchestration_v1('slow', %s, '0.0.1', %s, NULL, NULL)"
    execute(plane.url, unfinished, "instances.restore", f'{{"backup": "{made[0].id}"}}')
    working = "UPDATE interlock.instance SET orchestration = 'slow', working = %s WHERE id = %s"
    execute(plane.url, working, True, other.id)
    with pytest.raises(errors.BackupBusy, match="slow restores the backup") as busy:
        await plane.ask(plane.backups.delete, made[0].id)
    assert busy.value.orchestration == "slow"
    made.append(await plane.backed_up(shop.id))
    assert [(await plane.read_backup(one.id)).state for one in made] == ["made"] * 3
    with monkeypatch.context() as patched:  # asked for while they were sought
        patched.setattr(BackupRecords, "fetch", seeking_first(made[0].id))
        assert await plane.ask(plane.backups.prune) == []
    execute(plane.url, working, False, other.id)
    assert await plane.ask(plane.backups.prune) == [made[0].id]
    assert (await plane.backup_done(await plane.read_backup(made[0].id))).state == "deleted"


async def test_sweep_removes_only_the_remains_of_crashes(
    plane: Plane, shop: InstanceRecord, keeping: BackupSettings
) -> None:
    made = await plane.backed_up(shop.id)
    whole = (keeping.directory / str(made.path)).parent
    stem = whole.name.removesuffix(".1")
    assert whole.name == f"{stem}.1"
    rubbish = [whole.with_name(f".{stem}.7.part"), whole.with_name(f"{stem}.6")]
    foreign = [whole.with_name("notes"), whole.with_name(f"{stem.replace(made.id, '0' * 8 + made.id[8:])}.1")]
    for place in (*rubbish, *foreign):
        place.mkdir()
        (place / "archive.dump").write_text("half")
    (stuck := whole.with_name(f"{stem}.5")).symlink_to(foreign[0])  # a link is not removed as Interlock's
    assert await plane.backups.sweep() == 2
    assert sorted(whole.parent.iterdir()) == sorted([whole, stuck, *foreign])
    stuck.unlink()
    assert await plane.backups.sweep() == 0
    assert (await plane.backup_told(plane.backups.verify, made.id)).verified_at is not None


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        lacking("only root can mount a small disk")
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        lacking(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
async def cramped(url: str, real: LocalDriver, keeping: BackupSettings, tmp_path: Path) -> AsyncIterator[Plane]:
    with small_disk(tmp_path / "small") as disk:
        driver = PaperDriver(lambda: url, lambda: real)
        async with control_plane(url, driver, backups=replace(keeping, directory=disk / "backups")) as plane:
            yield plane


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("kind", ["file", "directory"])
async def test_a_full_disk_is_reported_and_left_as_it_was(cramped: Plane, real: LocalDriver, kind: str) -> None:
    directory = cramped.lifecycle.context.backup_settings.directory
    shop = await cramped.created("shop")
    assert shop.endpoint is not None
    owner = await connected(shop.endpoint, await real.password(SHARED))
    await owner.execute("CREATE TABLE bulk AS SELECT gen_random_uuid() AS id FROM generate_series(1, 20000)")
    try:
        failed = await cramped.backed_up(shop.id, kind)
    finally:
        await owner.execute("DROP TABLE bulk")
        await owner.close()
    assert (failed.state, failed.error_code) == ("failed", "out_of_space")
    assert "free some space" in (failed.error or "")
    assert [path.name for path in directory.rglob("*") if path.name != "shop"] == []
