import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from support.api import Api, resting_api, working_api
from support.local_instances import PORTS_OF_PAPER, local_driver, place_for_instances
from support.paper_driver import SHARED, TABLES, PaperDns, PaperDriver
from support.postgres import execute


@pytest.fixture(scope="session")
def real() -> Iterator[LocalDriver]:
    """A driver with one real instance, whose address the instances of the fake driver give."""
    with place_for_instances() as place:
        driver = local_driver(place, PORTS_OF_PAPER, ports=10)
        asyncio.run(driver.provision(Spec(SHARED, "shared")))
        yield driver


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, TABLES)
    return interlock_url


@pytest.fixture
async def api(url: str) -> AsyncIterator[Api]:
    """The API without a replica that works: requests are recorded and not carried out."""

    def none() -> LocalDriver:
        raise AssertionError("this API provisions nothing")

    async with resting_api(url, PaperDriver(lambda: url, none)) as api:
        yield api


@pytest.fixture
async def working(url: str, real: LocalDriver, tmp_path: Path) -> AsyncIterator[Api]:
    """The API with a replica that works, on the fake driver."""
    paper = PaperDriver(lambda: url, lambda: real)
    async with working_api(url, tmp_path / "data", paper, dns=PaperDns(lambda: url)) as api:
        yield api
