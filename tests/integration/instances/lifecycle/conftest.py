import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from support.instances import Plane, control_plane
from support.local_instances import PORTS_OF_PAPER, local_driver, place_for_instances
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
def paper(url: str, real: LocalDriver) -> PaperDriver:
    return PaperDriver(lambda: url, lambda: real)


@pytest.fixture
async def plane(url: str, paper: PaperDriver) -> AsyncIterator[Plane]:
    async with control_plane(url, paper, dns=PaperDns(lambda: url)) as plane:
        yield plane
