import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from interlock.instances.backups.model import BackupSettings
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from interlock.instances.records import InstanceRecord
from support.instances import Plane, control_plane
from support.local_instances import PG_BIN, PORTS_OF_PAPER, as_owner, local_driver, place_for_instances
from support.paper_driver import SHARED, TABLES, PaperDns, PaperDriver
from support.postgres import execute


@pytest.fixture(scope="session")
def real() -> Iterator[LocalDriver]:
    """A driver with one real instance, which serves all instances on paper."""
    with place_for_instances() as place:
        driver = local_driver(place, PORTS_OF_PAPER, ports=10)
        asyncio.run(driver.provision(Spec(SHARED, "shared")))
        yield driver


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, TABLES)
    return interlock_url


@pytest.fixture
def keeping(tmp_path: Path) -> BackupSettings:
    return BackupSettings(tmp_path / "backups", pg_bin=PG_BIN)


@pytest.fixture
async def plane(url: str, real: LocalDriver, keeping: BackupSettings) -> AsyncIterator[Plane]:
    driver = PaperDriver(lambda: url, lambda: real)
    async with control_plane(url, driver, dns=PaperDns(lambda: url), backups=keeping) as plane:
        yield plane


@pytest.fixture
async def owner(real: LocalDriver) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """A connection to the real instance, with a table of this test."""
    connection = await as_owner(real, SHARED)
    await connection.execute(
        "CREATE TABLE item AS SELECT n AS id, repeat('x', 100) AS what FROM generate_series(1, 500) n"
    )
    yield connection
    await connection.execute("DROP TABLE IF EXISTS item")
    await connection.close()


@pytest.fixture
async def shop(plane: Plane, owner: "asyncpg.Connection[Any]") -> InstanceRecord:
    return await plane.created("shop")
