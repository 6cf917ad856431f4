"""Looking at an instance until it is as expected."""

import asyncio

from interlock.instances.drivers.port import Driver, Observation, Observed


async def seen(driver: Driver, id: str, state: Observed, *, within: float = 50.0) -> list[Observation]:  # noqa: A002
    """Everything that was seen on the way there."""
    observations: list[Observation] = []
    try:
        async with asyncio.timeout(within):
            while not observations or observations[-1].state != state:
                observations.append(await driver.observe(id))
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not {state} within {within} s; seen: {observations[-3:]}") from None
    return observations
