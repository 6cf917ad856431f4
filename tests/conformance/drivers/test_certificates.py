"""An instance serves a certificate that was issued for it, and again its own, wherever the driver can."""

import logging
from dataclasses import replace

import pytest

from conformance.drivers.kinds import KINDS
from conformance.drivers.stage import Stage, seen
from interlock.errors import BadSpec, InstanceAbsent, NotSupported
from interlock.instances.drivers.port import Driver, Endpoint, Spec
from support.certificate_authority import Authority


async def running(driver: Driver, spec: Spec) -> Endpoint:
    endpoint = (await seen(driver, spec.id, "running")).endpoint
    assert endpoint is not None
    return endpoint


async def able(driver: Driver, spec: Spec) -> Endpoint:
    """The endpoint of an instance. For a driver without certificates, the test checks only the refusal."""
    await driver.provision(spec)
    endpoint = await running(driver, spec)
    if not driver.can_use_certificate:
        with pytest.raises(NotSupported):
            await driver.use_certificate(spec.id, Authority().issue())
        assert await running(driver, spec) == endpoint
        pytest.skip("said to be beyond this driver")
    return endpoint


async def test_an_issued_certificate_is_served_and_its_own_again(stage: Stage, driver: Driver, spec: Spec) -> None:
    own, authority = await able(driver, spec), Authority()
    password, issued = await driver.password(spec.id), authority.issue()

    for _ in range(2):
        await stage.driver().use_certificate(spec.id, issued)
        new = await running(driver, spec)
        assert new == replace(own, ca=authority.ca)
        assert await stage.lets_in(new, password)
        assert not await stage.lets_in(own, password)

    await driver.stop(spec.id)
    await seen(driver, spec.id, "stopped")
    await driver.start(spec.id)
    assert await running(driver, spec) == new
    assert await stage.lets_in(new, password)
    await driver.provision(spec)
    assert await running(driver, spec) == new

    for _ in range(2):
        await stage.driver().use_certificate(spec.id, None)
        assert await running(driver, spec) == own
        assert await stage.lets_in(own, password)
        assert not await stage.lets_in(new, password)

    await driver.use_certificate(spec.id, authority.issue())
    await driver.remove(spec.id)
    await seen(driver, spec.id, "absent")
    assert await stage.leftovers(spec.id) == []


async def test_a_certificate_for_clients_that_trust_its_authority(stage: Stage, driver: Driver, spec: Spec) -> None:
    own, authority = await able(driver, spec), Authority()

    await driver.use_certificate(spec.id, replace(authority.issue(), ca=None))

    new = await running(driver, spec)
    assert new == replace(own, ca=None)
    assert await stage.lets_in(replace(new, ca=authority.ca), await driver.password(spec.id))


@pytest.mark.exhaustive
async def test_one_for_an_instance_that_is_stopped(stage: Stage, driver: Driver, spec: Spec) -> None:
    own, authority = await able(driver, spec), Authority()
    await driver.stop(spec.id)
    await seen(driver, spec.id, "stopped")

    await driver.use_certificate(spec.id, authority.issue())

    await driver.start(spec.id)
    assert await running(driver, spec) == replace(own, ca=authority.ca)
    assert await stage.lets_in(await running(driver, spec), await driver.password(spec.id))


async def test_a_key_of_another_is_refused_and_changes_nothing(stage: Stage, driver: Driver, spec: Spec) -> None:
    own, authority = await able(driver, spec), Authority()

    with pytest.raises(BadSpec, match="not made for this private key"):
        await driver.use_certificate(spec.id, replace(authority.issue(), key=authority.issue().key))

    assert await running(driver, spec) == own
    assert await stage.lets_in(own, await driver.password(spec.id))


async def test_a_missing_instance_has_no_certificate(driver: Driver, spec: Spec) -> None:
    with pytest.raises(InstanceAbsent if driver.can_use_certificate else NotSupported):
        await driver.use_certificate(spec.id, None)


@pytest.mark.exhaustive
async def test_whatever_a_crash_leaves_can_be_connected_to(
    stage: Stage, driver: Driver, spec: Spec, step_of_use_certificate: int
) -> None:
    own, authority = await able(driver, spec), Authority()
    password = await driver.password(spec.id)

    assert await stage.crash("use_certificate", spec, step_of_use_certificate)

    assert await stage.lets_in(await running(driver, spec), password)
    await driver.stop(spec.id)
    await seen(driver, spec.id, "stopped")
    await driver.start(spec.id)
    assert await stage.lets_in(await running(driver, spec), password)
    await driver.use_certificate(spec.id, authority.issue())
    assert await running(driver, spec) == replace(own, ca=authority.ca)
    assert await stage.lets_in(await running(driver, spec), password)
    await driver.use_certificate(spec.id, None)
    assert await running(driver, spec) == own
    assert await stage.lets_in(own, password)


@pytest.mark.exhaustive
async def test_every_step_of_it_was_tried(stage: Stage, driver: Driver, driver_kind: str, spec: Spec) -> None:
    await able(driver, spec)

    assert not await stage.crash("use_certificate", spec, KINDS[driver_kind].steps["use_certificate"] + 1)


async def test_its_key_is_in_no_log_and_no_representation(
    driver: Driver, spec: Spec, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await able(driver, spec)
    issued = Authority().issue()
    careless = replace(issued, chain=issued.key + issued.chain, ca=f"{issued.key}{issued.ca}")
    await driver.use_certificate(spec.id, careless)

    told = [repr(issued), repr(await driver.observe(spec.id))]
    told += [str(vars(record)) for record in caplog.records]
    told += [line async for line in driver.logs(spec.id, lines=10_000)]

    secret = issued.key.splitlines()[1]
    assert not [text for text in told if secret in text or "PRIVATE KEY" in text]
