"""Orchestrations of one activity: record, start, fence, wait."""

import asyncio
import itertools
import time

from benchmarks.loads.protocol import Settings, answer, orders_async
from interlock.durable.attempt import Attempt
from interlock.durable.declarations import Orchestrations
from interlock.durable.replica import AsyncDurable
from interlock.durable.run import Run

work = Orchestrations()
numbers = itertools.count()


@work.activity()
async def double(attempt: Attempt, number: int) -> int:
    return 2 * number


@work.orchestration()
async def doubled(run: Run, number: int) -> int:
    return await run.call(double, number)


async def rate(durable: AsyncDurable, count: int) -> float:
    began_at = time.perf_counter()
    await asyncio.gather(*(one(durable) for _ in range(count)))
    return count / (time.perf_counter() - began_at)


async def one(durable: AsyncDurable) -> None:
    handle = await durable.start(doubled, f"doubled-{next(numbers)}-{time.time_ns()}", 21)
    assert await handle.wait(60) == 42


async def run(settings: Settings) -> None:
    async with AsyncDurable(work, url=settings["url"], concurrency=settings["concurrency"]) as durable:
        await rate(durable, 20)
        async for order in orders_async():
            answer(await rate(durable, order["count"]))


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
