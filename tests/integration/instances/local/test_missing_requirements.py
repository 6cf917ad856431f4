"""A machine without the programs, or without the disk space, that an instance needs."""

from pathlib import Path

import pytest

from interlock.embedded import all_binaries
from interlock.errors import BadSpec, BinariesMissing, OutOfSpace
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from support.local_instances import PG_BIN, Shop, local_driver, new_spec
from support.small_disk import small_disk


async def test_without_programs_nothing_is_created(root: Path, tmp_path: Path, spec: Spec) -> None:
    driver = LocalDriver(root, pg_bin=tmp_path)

    for verb in (driver.check, driver.provision):
        with pytest.raises(BinariesMissing, match="INTERLOCK_PG_BIN"):
            await verb(spec)

    assert not root.exists()


async def test_a_version_that_is_not_here_is_refused_with_those_that_are(driver: LocalDriver) -> None:
    here = str(all_binaries(PG_BIN)[0].version[0])

    with pytest.raises(BadSpec, match=rf"PostgreSQL 99 is not on this machine: .* {here}"):
        await driver.check(new_spec(version="99"))


@pytest.mark.exhaustive
async def test_every_installed_version_can_be_requested(driver: LocalDriver, root: Path) -> None:
    majors = sorted({str(binaries.version[0]) for binaries in all_binaries(PG_BIN)}, key=int)
    for major in majors:
        spec = new_spec(version=major)
        await driver.provision(spec)
        assert (await driver.observe(spec.id)).version == major
        assert (root / spec.id / "postgresql" / "data" / "PG_VERSION").read_text().strip() == major
    newest = new_spec()
    await driver.provision(newest)
    assert (await driver.observe(newest.id)).version == majors[-1]


async def test_more_room_than_there_is_is_refused(driver: LocalDriver, root: Path) -> None:
    with pytest.raises(OutOfSpace, match="free some space, or use a smaller size"):
        await driver.provision(new_spec(storage_bytes=2**62))

    assert not root.exists()


async def test_an_existing_instance_is_not_checked_for_space_again(shop: Shop) -> None:
    await shop.driver.stop(shop.spec.id)

    await shop.driver.provision(Spec(shop.spec.id, shop.spec.name, storage_bytes=2**62))

    assert (await shop.driver.observe(shop.spec.id)).state == "running"


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("megabytes", [1, 20, 38])
async def test_a_full_disk_is_reported_and_left_as_it_was(megabytes: int) -> None:
    with small_disk(megabytes) as disk:
        driver = local_driver(disk / "instances")
        with pytest.raises(OutOfSpace, match="free some space"):
            await driver.provision(new_spec())

        assert await driver.ids() == {}
        assert sorted(path.name for path in (disk / "instances").iterdir()) == ["ports.lock"]
