"""A holder that acquires a lease or a session lock on order, answers with the time, and holds it until it is killed."""

import asyncio
import time

from benchmarks.loads.protocol import Settings, answer, orders_async
from interlock import AsyncInterlock


async def run(settings: Settings) -> None:
    async with AsyncInterlock(settings["url"]) as locks:
        async for _ in orders_async():
            if settings["ttl"]:
                held: object = await locks.lease(settings["name"], ttl=settings["ttl"]).acquire()
            else:
                held = await locks.session_lock(settings["name"]).acquire()
            answer({"at": time.monotonic(), "wall": time.time(), "held": repr(held)})


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
