"""The duration of each acquire of one name, one after the other, without contention."""

import asyncio
import time

from benchmarks.loads.protocol import Settings, answer, orders_async
from interlock import AsyncInterlock, AsyncLease

WARM_UP = 20


async def run(settings: Settings) -> None:
    async with AsyncInterlock(settings["url"]) as locks:
        lease = locks.lease(settings["name"], ttl=30)
        await acquires(lease, WARM_UP)
        async for order in orders_async():
            answer(await acquires(lease, order["count"]))


async def acquires(lease: AsyncLease, count: int) -> list[float]:
    """Milliseconds of each acquire."""
    times = []
    for _ in range(count):
        begun_at = time.perf_counter()
        grant = await lease.acquire()
        times.append((time.perf_counter() - begun_at) * 1e3)
        await grant.release()
    return times


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
