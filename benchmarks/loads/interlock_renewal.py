"""Very many leases in one process: the cost of a renewal round, and the memory of each lease."""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Sequence

from benchmarks.loads.protocol import Settings, answer, orders_async
from interlock import AsyncGrant, AsyncInterlock
from interlock.coordination.events import Event, Renewed

TTL = 12.0
_AT_ONCE = 500


class Watch:
    """Records the duration of each round that renewed all leases, and this thread's CPU time since the previous one."""

    def __init__(self, leases: int) -> None:
        self._leases = leases
        self._cpu_before: float | None = None
        self.rounds: asyncio.Queue[tuple[float, float]] = asyncio.Queue()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Renewed):
            now = time.thread_time()
            if event.leases == self._leases and self._cpu_before is not None:
                self.rounds.put_nowait((event.seconds, now - self._cpu_before))
            self._cpu_before = now


async def run(settings: Settings) -> None:
    """An order has the number of rounds to wait for; the answer has their seconds, CPU seconds and bytes per lease."""
    count = settings["leases"]
    memory = await memory_per_lease(settings["url"], count // 5)
    watch = Watch(count)
    async with AsyncInterlock(settings["url"], on_event=watch) as locks:
        held = await acquire_all(locks, "renewed", count)
        async for order in orders_async():
            rounds = [await watch.rounds.get() for _ in range(order["rounds"])]
            answer({"rounds": rounds, "bytes": memory, "held": len(held)})


async def acquire_all(locks: AsyncInterlock, prefix: str, count: int) -> list[AsyncGrant]:
    held: list[AsyncGrant] = []
    for first in range(0, count, _AT_ONCE):
        names = [f"{prefix}-{number}" for number in range(first, min(count, first + _AT_ONCE))]
        held += await asyncio.gather(*(locks.lease(name, ttl=TTL).acquire() for name in names))
    return held


async def memory_per_lease(url: str, count: int) -> float:
    """Bytes that Python allocated per lease for `count` held leases, with their names and the caller's list."""
    async with AsyncInterlock(url) as locks:
        await release_all(await acquire_all(locks, "warm-up", count))
        gc.collect()
        tracemalloc.start()
        try:
            held = await acquire_all(locks, "measured", count)
            gc.collect()
            size = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        await release_all(held)
    return size / count


async def release_all(held: Sequence[AsyncGrant]) -> None:
    for first in range(0, len(held), _AT_ONCE):
        await asyncio.gather(*(grant.release() for grant in held[first : first + _AT_ONCE]))


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
