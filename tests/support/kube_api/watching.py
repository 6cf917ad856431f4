"""Observations of an instance until it has the expected state."""

import asyncio

from interlock.instances.drivers.port import Driver, Observation, Observed


async def seen(driver: Driver, id: str, state: Observed, *, within: float = 50.0) -> list[Observation]:  # noqa: A002
    """All observations until the expected one."""
    observations: list[Observation] = []
    try:
        async with asyncio.timeout(within):
            while not observations or observations[-1].state != state:
                observations.append(await driver.observe(id))
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not {state} within {within} s; seen: {observations[-3:]}") from None
    return observations
