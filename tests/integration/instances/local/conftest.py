import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from support.local_instances import PORTS_OF_SHOP, Shop, local_driver, new_spec, place_for_instances


@pytest.fixture
def root() -> Iterator[Path]:
    with place_for_instances() as place:
        yield place / "instances"


@pytest.fixture
def driver(root: Path) -> LocalDriver:
    return local_driver(root)


@pytest.fixture
def spec() -> Spec:
    return new_spec()


@pytest.fixture(scope="session")
def common_shop() -> Iterator[Shop]:
    """A shared instance for tests that leave it unchanged, because a creation takes most of a second."""
    with place_for_instances() as place:
        driver = local_driver(place / "instances", PORTS_OF_SHOP, ports=10)
        shop = Shop(driver, new_spec(dns_name="shop.example.org"), place / "instances")
        asyncio.run(shop.driver.provision(shop.spec))
        yield shop


@pytest.fixture
async def shop(common_shop: Shop) -> Shop:
    await common_shop.driver.start(common_shop.spec.id)
    await common_shop.driver.set_parameters(common_shop.spec.id, {})
    return common_shop
