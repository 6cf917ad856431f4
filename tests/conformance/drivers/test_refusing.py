"""A driver's refusals, which leave nothing behind."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from conformance.drivers.stage import Stage, seen
from interlock.errors import BadSpec, DriverError, ForeignResource
from interlock.instances.drivers.port import Driver, Spec

BAD: dict[str, dict[str, Any]] = {
    "an old version": {"version": "9"},
    "no version": {"version": "newest, please"},
    "no room": {"storage_bytes": 0},
    "an unknown parameter": {"parameters": {"no such thing": "1"}},
    "a parameter of ours": {"parameters": {"listen_addresses": "*"}},
}


@pytest.mark.parametrize("what", BAD)
async def test_an_impossible_instance_is_refused_and_leaves_nothing(
    stage: Stage, driver: Driver, spec: Spec, what: str
) -> None:
    bad = replace(spec, **BAD[what])

    for verb in (driver.check, driver.provision):
        with pytest.raises(BadSpec):
            await verb(bad)

    assert await driver.ids() == {}
    assert await stage.leftovers(spec.id) == []


async def test_a_foreign_resource_is_refused_and_left_alone(stage: Stage, driver: Driver, spec: Spec) -> None:
    is_intact = await stage.put_foreign(spec)

    for verb in (driver.check, driver.provision):
        with pytest.raises(ForeignResource):
            await verb(spec)
    assert (await driver.observe(spec.id)).state == "absent"
    assert await driver.ids() == {}
    with suppress(ForeignResource):
        await driver.remove(spec.id)

    assert is_intact()


async def test_an_id_has_one_name(driver: Driver, spec: Spec) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")

    with pytest.raises(DriverError):
        await driver.provision(replace(spec, name="another"))

    assert await driver.ids() == {spec.id: spec.name}
