"""Passwords are given only on request."""

import logging

import pytest

from conformance.drivers.stage import seen
from interlock.instances.drivers.port import Driver, Spec


async def test_a_password_is_in_no_log_and_no_representation(
    driver: Driver, spec: Spec, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await driver.provision(spec)
    sight = await seen(driver, spec.id, "running")
    passwords = [await driver.password(spec.id)]
    await driver.reset_password(spec.id)
    passwords.append(await driver.password(spec.id))

    told = [repr(sight), repr(driver), repr(spec), str(await driver.ids())]
    told += [str(vars(record)) for record in caplog.records]
    told += [line async for line in driver.logs(spec.id, lines=10_000)]

    assert len(set(passwords)) == 2
    for password in passwords:
        assert len(password) >= 16
        assert not [text for text in told if password in text]
