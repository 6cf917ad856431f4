"""Interlock in one process among several, cycle after cycle: how many there were, and how long the worst one took."""

import asyncio
import time

from benchmarks.loads.talk import Settings, answer, orders_async
from interlock import AsyncInterlock, AsyncLease


async def run(settings: Settings) -> None:
    async with AsyncInterlock(settings["url"]) as locks:
        lease = locks.lease(settings["name"], ttl=30)
        await (await lease.acquire()).release()
        async for order in orders_async():
            answer(await cycles(lease, order["until"]))


async def cycles(lease: AsyncLease, until: float) -> tuple[int, float]:
    count, worst = 0, 0.0
    while (begun_at := time.monotonic()) < until:
        await (await lease.acquire()).release()
        count += 1
        worst = max(worst, time.monotonic() - begun_at)
    return count, worst


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
