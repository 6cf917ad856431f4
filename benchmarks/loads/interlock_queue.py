"""Many tasks that queue for one name, and queue again after each grant."""

import asyncio
import time

from benchmarks.loads.protocol import Settings, answer, orders_async
from interlock import AsyncInterlock, AsyncLease

Stamps = list[tuple[int, int]]


async def run(settings: Settings) -> None:
    """Two orders: `queue` starts so many more tasks that enter the queue; `stop` answers with the timestamps."""
    async with AsyncInterlock(settings["url"]) as locks:
        lease = locks.lease(settings["name"], ttl=60)
        stamps: Stamps = []
        tasks: list[asyncio.Task[None]] = []
        async for order in orders_async():
            if "queue" in order:
                tasks += [asyncio.create_task(_acquire_repeatedly(lease, stamps)) for _ in range(order["queue"])]
                answer("queueing")
            else:
                answer(stamps)
                await _end(tasks)
                stamps, tasks = [], []


async def _acquire_repeatedly(lease: AsyncLease, stamps: Stamps) -> None:
    while True:
        grant = await lease.acquire()
        granted_at = time.monotonic_ns()
        releasing_at = time.monotonic_ns()
        await grant.release()
        stamps.append((granted_at, releasing_at))


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
