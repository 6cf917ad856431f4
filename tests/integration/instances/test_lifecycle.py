"""Instances come, change and go: real ones, of the driver `local`."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interlock.instances.drivers.local import LocalDriver
from support.instances import Plane, control_plane
from support.local_instances import connected, local_driver, place_for_instances


@pytest.fixture
def place() -> Iterator[Path]:
    with place_for_instances() as place:
        yield place


@pytest.fixture
def driver(place: Path) -> LocalDriver:
    return local_driver(place)


@pytest.fixture
async def plane(interlock_url: str, driver: LocalDriver) -> AsyncIterator[Plane]:
    async with control_plane(interlock_url, driver) as plane:
        yield plane


async def test_one_is_created_answers_over_tls_and_is_deleted(plane: Plane, driver: LocalDriver) -> None:
    asked = await plane.create("Shop", dns_name="Shop.Example.com", tags={"team": "blue"})
    assert (asked.state, asked.name, asked.dns_name) == ("creating", "shop", "shop.example.com")
    made = await plane.done(asked)
    assert (made.state, made.health, made.working, made.error) == ("running", "healthy", False, None)
    assert made.endpoint is not None
    connection = await connected(made.endpoint, await driver.password(made.id))
    assert await connection.fetchval("SELECT current_user") == "shop"
    await connection.close()
    gone = await plane.done(await plane.ask(plane.instances.delete, made.id))
    assert (gone.state, gone.working) == ("deleted", False)
    assert await driver.ids() == {}
