"""Access to files, roles and certificates of an instance."""

import os
import stat
from pathlib import Path

import psycopg
import pytest

from interlock.embedded import find_binaries
from interlock.errors import BadSpec, ForeignResource
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from support.local_instances import PG_BIN, Shop, new_spec
from support.ordinary_user import run_as_ordinary_user

ORDINARY_USER = """
import asyncio
import sys
from pathlib import Path
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
driver = LocalDriver(Path(sys.argv[1]), pg_bin=Path(sys.argv[2]))

async def main():
    await driver.provision(Spec("mine", "shop"))
    print((await driver.observe("mine")).state, len(await driver.password("mine")))
    print((Path(sys.argv[1]) / "mine" / "postgresql" / "data").stat().st_uid)
    await driver.stop("mine")
    print((await driver.observe("mine")).state)
    await driver.remove("mine")
    print((await driver.observe("mine")).state)

asyncio.run(main())
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_secrets_are_readable_only_by_their_user(shop: Shop) -> None:
    closed = 0o711 if os.geteuid() == 0 else 0o700  # the user that runs the server has to pass through
    assert mode_of(shop.root) == closed
    assert mode_of(shop.directory) == closed
    for name in ("password", "instance.json", "lock"):
        assert mode_of(shop.directory / name) == 0o600
        assert (shop.directory / name).stat().st_uid == os.geteuid()
    assert await shop.driver.password(shop.spec.id) not in (shop.directory / "instance.json").read_text()


async def test_the_owner_is_no_superuser_and_owns_its_database(shop: Shop) -> None:
    assert await shop.ask("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    assert await shop.ask("SELECT pg_get_userbyid(datdba) = current_user FROM pg_database WHERE datname = 'shop'")


@pytest.mark.parametrize("host", ["shop.example.org", "localhost", "127.0.0.1"])
async def test_libpq_can_check_the_certificate_against_every_name(shop: Shop, tmp_path: Path, host: str) -> None:
    endpoint = await shop.endpoint()
    authority = tmp_path / "ca.pem"
    authority.write_text(endpoint.ca or "")
    address = f"host={host} hostaddr={endpoint.host} port={endpoint.port}"
    login = f"user={endpoint.user} dbname={endpoint.database} password={await shop.driver.password(shop.spec.id)}"

    with psycopg.connect(f"{address} {login} sslmode=verify-full sslrootcert={authority}") as connection:
        row = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()

    assert row == (True,)


async def test_an_ordinary_user_has_instances_too(root: Path) -> None:
    root.parent.chmod(0o1777)
    told = run_as_ordinary_user(ORDINARY_USER, root, find_binaries(PG_BIN).bin_dir).split()

    assert told[0] == "running", told
    assert told[3:] == ["stopped", "absent"]


@pytest.mark.parametrize("id", ["../shop", "", ".", "a/b", "a b", "x" * 64, "ü"])
async def test_an_id_never_leads_out_of_the_directory(driver: LocalDriver, root: Path, id: str) -> None:  # noqa: A002
    for verb in (driver.observe, driver.remove, driver.start, driver.password):
        with pytest.raises(BadSpec, match="cannot be the id"):
            await verb(id)
    with pytest.raises(BadSpec, match="cannot be the id"):
        await driver.provision(Spec(id, "shop"))
    assert not root.exists()


@pytest.mark.parametrize("name", ["", "postgres", "pg_shop", "public", "template1", "two\nlines", "x" * 64, "ü" * 32])
async def test_names_that_postgresql_cannot_have_are_refused(driver: LocalDriver, root: Path, name: str) -> None:
    with pytest.raises(BadSpec):
        await driver.provision(new_spec(name))
    assert not root.exists()


async def test_a_marker_of_another_instance_is_refused(driver: LocalDriver, root: Path, spec: Spec) -> None:
    (root / spec.id).mkdir(parents=True)
    for told in ('{"id": "another", "name": "shop", "port": 1, "major": 17}', "not even JSON"):
        (root / spec.id / "instance.json").write_text(told)

        for verb in (driver.observe, driver.remove, driver.start):
            with pytest.raises(ForeignResource, match="does not describe instance"):
                await verb(spec.id)
        with pytest.raises(ForeignResource, match="does not describe instance"):
            await driver.provision(spec)
        assert await driver.ids() == {}
        assert (root / spec.id / "instance.json").read_text() == told


async def test_foreign_files_in_the_directory_stay(driver: LocalDriver, root: Path, spec: Spec) -> None:
    await driver.provision(spec)
    for place in (root / spec.id, root / spec.id / "postgresql"):
        (place / "notes.txt").write_text("mine")

    await driver.remove(spec.id)

    assert sorted(path.name for path in (root / spec.id).iterdir()) == ["notes.txt", "postgresql"]
    assert [path.name for path in (root / spec.id / "postgresql").iterdir()] == ["notes.txt"]
    observation = await driver.observe(spec.id)
    assert observation.state == "absent"
    assert "not created by Interlock" in observation.detail
