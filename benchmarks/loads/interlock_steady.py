"""Interlock in one of several processes, with cycles one after the other."""

import asyncio
import time
from dataclasses import asdict

from benchmarks.loads.protocol import Settings, answer, orders_async
from benchmarks.loads.tally import Tally
from interlock import AsyncInterlock, AsyncLease


async def run(settings: Settings) -> None:
    async with AsyncInterlock(settings["url"]) as locks:
        lease = locks.lease(settings["name"], ttl=30)
        await (await lease.acquire()).release()
        async for order in orders_async():
            answer(asdict(await cycles(lease, order["until"])))


async def cycles(lease: AsyncLease, until: float) -> Tally:
    tally = Tally()
    while (begun_at := time.monotonic()) < until:
        await (await lease.acquire()).release()
        tally.note(begun_at)
    return tally


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
