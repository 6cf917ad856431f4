"""A process may die after any step. The next one completes or removes what it began."""

import asyncio

import pytest

from conformance.drivers.kinds import KINDS
from conformance.drivers.stage import Stage, seen
from interlock.instances.drivers.port import Driver, Spec


@pytest.mark.exhaustive(beyond=1)
async def test_an_incomplete_instance_is_completed(
    stage: Stage, driver: Driver, spec: Spec, step_of_provision: int
) -> None:
    assert await stage.crash("provision", spec, step_of_provision)

    assert spec.id in await driver.ids()
    await driver.provision(spec)

    sight = await seen(driver, spec.id, "running")
    assert sight.endpoint is not None
    assert await stage.lets_in(sight.endpoint, await driver.password(spec.id)) in (True, None)
    assert await driver.ids() == {spec.id: spec.name}


@pytest.mark.exhaustive(beyond=1)
async def test_an_incomplete_instance_is_removed(
    stage: Stage, driver: Driver, spec: Spec, step_of_provision: int
) -> None:
    assert await stage.crash("provision", spec, step_of_provision)
    assert (await driver.observe(spec.id)).state != "absent"

    await driver.remove(spec.id)

    await seen(driver, spec.id, "absent")
    assert await stage.leftovers(spec.id) == []
    assert await driver.ids() == {}


@pytest.mark.exhaustive(beyond=1)
async def test_an_incompletely_removed_instance_is_removed(
    stage: Stage, driver: Driver, spec: Spec, step_of_remove: int
) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")
    assert await stage.crash("remove", spec, step_of_remove)
    if await stage.leftovers(spec.id):
        assert spec.id in await driver.ids()

    await driver.remove(spec.id)

    await seen(driver, spec.id, "absent")
    assert await stage.leftovers(spec.id) == []
    assert await driver.ids() == {}


@pytest.mark.exhaustive
async def test_every_step_was_tried(stage: Stage, driver: Driver, driver_kind: str, spec: Spec) -> None:
    assert not await stage.crash("provision", spec, KINDS[driver_kind].steps["provision"] + 1)
    await seen(driver, spec.id, "running")
    assert not await stage.crash("remove", spec, KINDS[driver_kind].steps["remove"] + 1)
    await seen(driver, spec.id, "absent")


async def test_several_at_once_make_one(stage: Stage, spec: Spec) -> None:
    drivers = [stage.driver() for _ in range(3)]
    await asyncio.gather(*(driver.provision(spec) for driver in drivers))

    sights = [await seen(driver, spec.id, "running") for driver in drivers]
    passwords = {await driver.password(spec.id) for driver in drivers}

    assert sights[0] == sights[1] == sights[2]
    assert len(passwords) == 1
    assert await drivers[0].ids() == {spec.id: spec.name}


@pytest.mark.exhaustive(beyond=1)
async def test_several_at_once_remove_one(stage: Stage, spec: Spec) -> None:
    drivers = [stage.driver() for _ in range(3)]
    await drivers[0].provision(spec)
    await seen(drivers[0], spec.id, "running")

    await asyncio.gather(*(driver.remove(spec.id) for driver in drivers))

    await seen(drivers[0], spec.id, "absent")
    assert await stage.leftovers(spec.id) == []
