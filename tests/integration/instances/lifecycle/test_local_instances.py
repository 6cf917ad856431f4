"""The life of real instances of the driver `local`."""

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from interlock.instances.drivers.local import LocalDriver
from support.instances import Plane, control_plane
from support.local_instances import connected, local_driver, place_for_instances
from support.postgres import dumped


@pytest.fixture
def driver() -> Iterator[LocalDriver]:
    with place_for_instances() as place:
        yield local_driver(place)


@pytest.fixture
async def plane(interlock_url: str, driver: LocalDriver) -> AsyncIterator[Plane]:
    async with control_plane(interlock_url, driver) as plane:
        yield plane


@pytest.mark.timeout(300)
async def test_an_instance_is_created_changed_and_deleted_and_its_passwords_are_recorded_nowhere(
    interlock_url: str, plane: Plane, driver: LocalDriver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    asked = await plane.create("Shop", dns_name="Shop.Example.com", tags={"team": "blue"})
    assert (asked.state, asked.name, asked.dns_name) == ("creating", "shop", "shop.example.com")
    made = await plane.done(asked)
    assert (made.state, made.health, made.working, made.error) == ("running", "healthy", False, None)

    passwords = [await driver.password(made.id)]
    assert made.endpoint is not None
    connection = await connected(made.endpoint, passwords[0])
    assert await connection.fetchval("SELECT current_user") == "shop"
    assert asked.version is None
    assert made.version == str(connection.get_server_version().major)
    await connection.close()

    reset = await plane.told(plane.instances.reset_password, made.id)
    passwords.append(await driver.password(made.id))
    assert reset.error is None
    assert passwords[0] != passwords[1]
    with pytest.raises(asyncpg.InvalidPasswordError):
        await connected(made.endpoint, passwords[0])

    changed = await plane.told(plane.instances.set_parameters, made.id, {"work_mem": "8MB", "max_connections": 20})
    assert (changed.state, changed.parameters) == ("running", {"work_mem": "8MB", "max_connections": "20"})
    connection = await connected(made.endpoint, passwords[1])
    assert await connection.fetchval("SELECT current_setting('max_connections')") == "20"
    await connection.close()

    stopped = await plane.told(plane.instances.stop, made.id)
    assert (stopped.state, stopped.health, stopped.watcher) == ("stopped", "unknown", None)
    assert (await driver.observe(made.id)).state == "stopped"
    assert (await plane.told(plane.instances.start, made.id)).state == "running"
    assert (await plane.told(plane.instances.restart, made.id)).state == "running"

    gone = await plane.told(plane.instances.delete, made.id)
    assert (gone.state, gone.working) == ("deleted", False)
    assert await driver.ids() == {}

    everything = dumped(interlock_url, "--inserts") + caplog.text
    assert made.id in everything
    assert not [password for password in passwords if password in everything]
