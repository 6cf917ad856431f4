"""The life of an instance, in which every operation may be repeated."""

from contextlib import nullcontext
from dataclasses import replace
from uuid import uuid4

import pytest

from conformance.drivers.stage import Stage, seen
from interlock.errors import InstanceAbsent, NotSupported
from interlock.instances.drivers.port import Driver, Spec


async def test_an_instance_that_was_never_created_is_absent(driver: Driver, spec: Spec) -> None:
    assert (await driver.observe(spec.id)).state == "absent"
    assert await driver.ids() == {}
    await driver.remove(spec.id)
    for verb in (driver.start, driver.stop, driver.password, driver.reset_password):
        with pytest.raises(InstanceAbsent, match=spec.id):
            await verb(spec.id)
    with pytest.raises(InstanceAbsent, match=spec.id):
        await driver.set_parameters(spec.id, {})
    with pytest.raises(InstanceAbsent, match=spec.id):
        [line async for line in driver.logs(spec.id)]


async def test_checking_makes_nothing(stage: Stage, driver: Driver, spec: Spec) -> None:
    await driver.check(spec)

    assert await driver.ids() == {}
    assert await stage.leftovers(spec.id) == []


async def test_an_instance_is_seen_at_each_stage_of_its_life(stage: Stage, driver: Driver, spec: Spec) -> None:
    await driver.provision(spec)
    sight = await seen(driver, spec.id, "running")
    assert sight.endpoint is not None
    assert sight.version is not None
    assert await driver.ids() == {spec.id: spec.name}
    password = await driver.password(spec.id)
    assert await stage.lets_in(sight.endpoint, password) in (True, None)

    await driver.stop(spec.id)
    await seen(driver, spec.id, "stopped")
    assert await stage.lets_in(sight.endpoint, password) in (False, None)
    assert await driver.ids() == {spec.id: spec.name}

    await driver.start(spec.id)
    assert (await seen(driver, spec.id, "running")).endpoint == sight.endpoint
    assert await driver.password(spec.id) == password
    assert await stage.lets_in(sight.endpoint, password) in (True, None)

    await driver.remove(spec.id)
    await seen(driver, spec.id, "absent")
    assert await driver.ids() == {}
    assert await stage.leftovers(spec.id) == []


async def test_every_verb_may_be_repeated(stage: Stage, driver: Driver, spec: Spec) -> None:
    await driver.provision(spec)
    first = await seen(driver, spec.id, "running")
    password = await driver.password(spec.id)

    await stage.driver().provision(spec)
    assert await seen(driver, spec.id, "running") == first
    assert await stage.driver().password(spec.id) == password

    for _ in range(2):
        assert await driver.set_parameters(spec.id, {"work_mem": "5MB"}) in ("reloaded", "restart needed")
    for _ in range(2):
        await driver.stop(spec.id)
        await seen(driver, spec.id, "stopped")
    for _ in range(2):
        await driver.start(spec.id)
        await seen(driver, spec.id, "running")
    for _ in range(2):
        await driver.remove(spec.id)
        await seen(driver, spec.id, "absent")
    assert await stage.leftovers(spec.id) == []


async def test_provisioning_starts_a_stopped_instance_unchanged(driver: Driver, spec: Spec) -> None:
    await driver.provision(spec)
    first = await seen(driver, spec.id, "running")
    await driver.stop(spec.id)
    await seen(driver, spec.id, "stopped")

    await driver.provision(spec)

    assert await seen(driver, spec.id, "running") == first


async def test_a_new_password_takes_the_old_ones_place(stage: Stage, driver: Driver, spec: Spec) -> None:
    await driver.provision(spec)
    sight = await seen(driver, spec.id, "running")
    old = await driver.password(spec.id)

    await driver.reset_password(spec.id)

    new = await driver.password(spec.id)
    assert new != old
    assert sight.endpoint is not None
    assert await stage.lets_in(sight.endpoint, new) in (True, None)
    assert await stage.lets_in(sight.endpoint, old) in (False, None)


@pytest.mark.exhaustive(beyond=1)
async def test_instances_of_one_name_do_not_meet(stage: Stage, driver: Driver, spec: Spec) -> None:
    other = replace(spec, id=str(uuid4()))
    for each in (spec, other):
        await driver.provision(each)
    sights = [await seen(driver, each.id, "running") for each in (spec, other)]
    assert sights[0].endpoint != sights[1].endpoint
    assert await driver.password(spec.id) != await driver.password(other.id)

    await driver.remove(spec.id)
    await seen(driver, spec.id, "absent")

    assert await driver.observe(other.id) == sights[1]
    assert await driver.ids() == {other.id: other.name}


async def test_growing_works_or_is_said_not_to(driver: Driver, spec: Spec) -> None:
    spec = replace(spec, storage_bytes=2**30)
    await driver.provision(spec)
    sight = await seen(driver, spec.id, "running")

    with nullcontext() if driver.can_resize else pytest.raises(NotSupported):
        await driver.resize(spec.id, 2**31)
        await driver.resize(spec.id, 2**31)

    assert (await seen(driver, spec.id, "running")).endpoint == sight.endpoint


@pytest.mark.exhaustive
async def test_as_many_lines_of_the_log_as_were_asked_for(driver: Driver, spec: Spec) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")

    before = [line async for line in driver.logs(spec.id)]
    last = [line async for line in driver.logs(spec.id, lines=1)]
    after = [line async for line in driver.logs(spec.id)]  # the server may have added some meanwhile

    assert before
    assert len(last) == 1
    assert last[0] in after[len(before) - 1 :]


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("name", ["ÜNÏ cödé 数据", 'it\'s "quoted" \\ $HOME; --', "x" * 63])
async def test_names_may_hold_any_character(stage: Stage, driver: Driver, spec: Spec, name: str) -> None:
    spec = replace(spec, name=name)
    await driver.provision(spec)
    sight = await seen(driver, spec.id, "running")

    assert await driver.ids() == {spec.id: name}
    assert sight.endpoint is not None
    assert await stage.lets_in(sight.endpoint, await driver.password(spec.id)) in (True, None)
