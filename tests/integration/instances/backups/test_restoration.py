"""A backup is restored into a new instance, and into an existing one, with real servers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from interlock import errors
from interlock.embedded import all_binaries
from interlock.instances.backups.model import BackupSettings
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.facts import facts
from interlock.instances.records import InstanceRecord
from support.instances import Plane, control_plane
from support.local_instances import PG_BIN, connected, local_driver, place_for_instances
from support.postgres import execute

pytestmark = pytest.mark.timeout(300)

CONTENTS = """
    CREATE EXTENSION pg_trgm;
    CREATE SCHEMA stock;
    CREATE TABLE stock.item (id serial PRIMARY KEY, name text NOT NULL, photo oid);
    CREATE INDEX item_by_name ON stock.item USING gin (name gin_trgm_ops);
    CREATE VIEW stock.short AS SELECT name FROM stock.item WHERE length(name) < 6;
    INSERT INTO stock.item (name, photo) SELECT 'item ' || n, NULL FROM generate_series(1, 1000) n;
    UPDATE stock.item SET photo = lo_from_bytea(0, '\\xcafe') WHERE id = 7;
    GRANT SELECT ON stock.item TO PUBLIC;
"""
SUMMARY = """
    SELECT (SELECT count(*) || md5(string_agg(name, ',' ORDER BY id)) FROM stock.item), nextval('stock.item_id_seq'),
           (SELECT encode(lo_get(photo), 'hex') FROM stock.item WHERE id = 7), (SELECT count(*) FROM stock.short),
           (SELECT string_agg(extname, ',' ORDER BY extname) FROM pg_extension),
           (SELECT string_agg(DISTINCT tableowner, ',') FROM pg_tables WHERE schemaname = 'stock'),
           (SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'stock')
"""


@pytest.fixture(scope="module")
def driver() -> Iterator[LocalDriver]:
    with place_for_instances() as place:
        yield local_driver(place)


@pytest.fixture
async def plane(interlock_url: str, driver: LocalDriver, keeping: BackupSettings) -> AsyncIterator[Plane]:
    async with control_plane(interlock_url, driver, backups=keeping) as plane:
        yield plane
        for instance in (await plane.ask(plane.instances.records.page)).items:
            await plane.told(plane.instances.delete, instance.id)


async def inside(driver: LocalDriver, instance: InstanceRecord, statement: str) -> list[Any]:
    assert instance.endpoint is not None
    connection = await connected(instance.endpoint, await driver.password(instance.id))
    try:
        if "SELECT" not in statement.split()[:1]:
            await connection.execute(statement)
            return []
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


async def test_a_backup_is_restored_into_a_new_instance_and_into_the_old_one(
    plane: Plane, driver: LocalDriver, keeping: BackupSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    shop = await plane.created("shop", parameters={"log_statement": "all"})
    await inside(driver, shop, CONTENTS)
    [before] = await inside(driver, shop, SUMMARY)
    assert before[2:] == ("cafe", 0, "pg_trgm,plpgsql", "shop", "shop")
    backups = [await plane.backed_up(shop.id, kind) for kind in ("file", "directory")]

    asked = await plane.ask(plane.backups.restore, backups[1].id, "copy")
    assert asked.version == (backups[1].server_version or "").partition(".")[0]
    copy = await plane.done(asked)
    assert (copy.state, copy.health, copy.error) == ("running", "healthy", None)
    [after] = await inside(driver, copy, SUMMARY)
    assert after == (before[0], before[1] + 1, "cafe", 0, "pg_trgm,plpgsql", "copy", "copy")
    assert [event.detail for event in await plane.events(copy.id) if event.kind == "restored"] == [backups[1].id]

    await inside(driver, shop, "DELETE FROM stock.item; DROP VIEW stock.short; CREATE TABLE later (id integer)")
    restored = await plane.told(plane.backups.restore_into, backups[0].id, shop.id)
    assert (restored.state, restored.error, restored.working) == ("running", None, False)
    assert await inside(driver, shop, SUMMARY) == [(before[0], before[1] + 1, *before[2:])]
    assert await inside(driver, shop, "SELECT count(*) FROM later") == [(0,)]
    granted = "SELECT has_table_privilege('public', 'stock.item', 'SELECT')"
    assert [await inside(driver, one, granted) for one in (shop, copy)] == [[(True,)], [(False,)]]

    await inside(
        driver,
        shop,
        "DROP VIEW stock.short; ALTER TABLE stock.item ADD UNIQUE (name);"
        " CREATE TABLE part (of text REFERENCES stock.item (name))",
    )
    refused = await plane.told(plane.backups.restore_into, backups[0].id, shop.id)
    assert (refused.state, refused.error_code, refused.working) == ("running", "backup_failed", False)
    assert "cannot drop" in (refused.error or "")
    assert "\n" not in (refused.error or "")
    unchanged = "SELECT count(*), to_regclass('stock.short') IS NULL FROM stock.item"
    assert await inside(driver, shop, unchanged) == [(1000, True)]

    while (told := await facts(driver, shop)).connections:
        pass  # the server's end of a session that was just closed
    assert (told.version, told.max_connections) == (backups[0].server_version, 50)
    assert told.size_bytes > 2**20
    assert told.started_at < shop.updated_at

    secrets = [await driver.password(one.id) for one in (shop, copy)]
    history = str(execute(plane.url, "SELECT h.event_data FROM interlock_engine.history h"))
    rows = str(execute(plane.url, "SELECT b FROM interlock.instance_backup b"))
    files = b"".join(path.read_bytes() for path in keeping.directory.rglob("*") if path.is_file()).decode(
        errors="replace"
    )
    log = "".join([line async for line in driver.logs(shop.id, lines=100_000)])
    assert "CREATE TABLE stock.item" in log
    assert not [secret for secret in secrets if secret in history + rows + files + log + caplog.text]


@pytest.mark.exhaustive
async def test_an_instance_that_cannot_be_restored_is_undone(
    plane: Plane, driver: LocalDriver, keeping: BackupSettings
) -> None:
    shop = await plane.created("shop")
    made = await plane.backed_up(shop.id)
    assert made.path is not None
    (keeping.directory / made.path).write_bytes(b"nothing of use")
    failed = await plane.done(await plane.ask(plane.backups.restore, made.id, "copy"))
    assert (failed.state, failed.error_code) == ("failed", "backup_damaged")
    assert await driver.ids() == {shop.id: "shop"}
    with pytest.raises(errors.NameTaken):
        await plane.ask(plane.backups.restore, made.id, "shop")
    with pytest.raises(errors.BadSpec, match="cannot be restored into 14"):
        await plane.ask(plane.backups.restore, made.id, "older", version=14)
    with pytest.raises(errors.NotSupported, match="more storage"):
        await plane.ask(plane.instances.resize, shop.id, "64Gi")


@pytest.mark.exhaustive
async def test_a_backup_goes_into_a_later_version_and_not_into_an_earlier_one(
    plane: Plane, driver: LocalDriver
) -> None:
    """The installed versions of PostgreSQL, which may be one."""
    majors = sorted({binaries.version[0] for binaries in all_binaries(PG_BIN)})
    wanted = {"old": majors[0], "new": majors[-1]}
    old, new = await asyncio.gather(*(plane.created(name, version=major) for name, major in wanted.items()))
    await inside(driver, old, "CREATE TABLE item AS SELECT 42 AS id")
    made = await plane.backed_up(old.id)
    assert (made.server_version or "").startswith(f"{majors[0]}.")
    restored = await plane.told(plane.backups.restore_into, made.id, new.id)
    assert restored.error is None
    assert await inside(driver, new, "SELECT id FROM item") == [(42,)]
    if len(majors) > 1:
        refused = await plane.told(plane.backups.restore_into, (await plane.backed_up(new.id)).id, old.id)
        assert (refused.state, refused.error_code) == ("running", "backup_unusable")
        assert "restore the backup into an instance that is not older" in (refused.error or "")
