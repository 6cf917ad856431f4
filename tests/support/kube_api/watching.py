"""Looking at an instance until it is as expected."""

import asyncio

from interlock.instances.drivers.port import Driver, Observation, Observed


async def seen(driver: Driver, id: str, state: Observed, *, within: float = 50.0) -> list[Observation]:  # noqa: A002
    """Everything that was seen on the way there."""
    sights: list[Observation] = []
    try:
        async with asyncio.timeout(within):
            while not sights or sights[-1].state != state:
                sights.append(await driver.look(id))
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not {state} within {within} s; seen: {sights[-3:]}") from None
    return sights
