"""A given number of cycles, or of acquires that fail, on connections that are closed before the answer."""

import asyncio

from benchmarks.loads.protocol import Order, Settings, answer, orders_async
from interlock import AsyncInterlock


async def run(url: str) -> None:
    async for order in orders_async():
        async with AsyncInterlock(url) as locks:
            await (refusals if "refusals" in order else cycles)(locks, order)
        answer("done")


async def cycles(locks: AsyncInterlock, order: Order) -> None:
    async def work(worker: int) -> None:
        lease = locks.lease(f"counted-{worker}", ttl=30)
        for _ in range(order["cycles"] // order["workers"]):
            grant = await lease.acquire()
            await grant.release()

    await asyncio.gather(*map(work, range(order["workers"])))


async def refusals(locks: AsyncInterlock, order: Order) -> None:
    lease = locks.lease(order["name"], ttl=30)
    for _ in range(order["refusals"]):
        assert await lease.try_acquire() is None


def main(settings: Settings) -> None:
    asyncio.run(run(settings["url"]))
