"""Cycles of acquire and release by tasks of one event loop, each on a name of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.loads.protocol import answer, orders_async

WARM_UP = 5


async def serve_cycles(cycle: Callable[[int], Awaitable[None]], workers: int) -> None:
    """Each order is answered with the cycles per second of all tasks together. `cycle` gets the worker's number."""
    for worker in range(workers):
        for _ in range(WARM_UP):
            await cycle(worker)
    async for order in orders_async():
        answer(await rate(cycle, workers, order["seconds"]))


async def rate(cycle: Callable[[int], Awaitable[None]], workers: int, seconds: float) -> float:
    begun_at = time.monotonic()
    end_at = begun_at + seconds

    async def work(worker: int) -> int:
        count = 0
        while time.monotonic() < end_at:
            await cycle(worker)
            count += 1
        return count

    counts = await asyncio.gather(*map(work, range(workers)))
    return sum(counts) / (time.monotonic() - begun_at)
