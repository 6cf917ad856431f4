"""Interlock from tasks of one event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.loads.contention import HOLD, Stamps
from benchmarks.loads.event_loops import loop_factory
from benchmarks.loads.protocol import Settings, answer, orders_async
from benchmarks.loads.tasks import serve_cycles
from interlock import AsyncInterlock, AsyncLease


async def run(settings: Settings) -> None:
    async with AsyncInterlock(settings["url"]) as locks:
        if "workers" in settings:
            await serve_leases(locks, settings["workers"], settings.get("confirm_release", True))
        else:
            lease = locks.lease(settings["name"], ttl=30, slots=settings.get("slots"))
            await serve_contention(lease, contend_for_terms if settings.get("terms") else contend)


async def serve_leases(locks: AsyncInterlock, workers: int, confirm_release: bool) -> None:
    leases = [locks.lease(f"cycle-{worker}", ttl=30, confirm_release=confirm_release) for worker in range(workers)]

    async def cycle(worker: int) -> None:
        async with leases[worker]:
            pass

    await serve_cycles(cycle, workers)


async def serve_contention(lease: AsyncLease, contend: Callable[[AsyncLease, float], Awaitable[Stamps]]) -> None:
    await (await lease.acquire()).release()
    async for order in orders_async():
        answer(await contend(lease, order["until"]))


async def contend(lease: AsyncLease, until: float) -> Stamps:
    stamps: Stamps = []
    while time.monotonic() < until:
        grant = await lease.acquire()
        granted_at = time.monotonic_ns()
        await asyncio.sleep(HOLD)
        releasing_at = time.monotonic_ns()
        await grant.release()
        stamps.append((granted_at, releasing_at))
    return stamps


async def contend_for_terms(lease: AsyncLease, until: float) -> Stamps:
    """The same by an election: each candidate leads for that long and steps down."""
    stamps: Stamps = []
    election = lease.terms()
    async for term in election:
        async with term:
            granted_at = time.monotonic_ns()
            await asyncio.sleep(HOLD)
            stamps.append((granted_at, time.monotonic_ns()))
            term.step_down()
        if time.monotonic() >= until:
            break
    return stamps


def main(settings: Settings) -> None:
    with asyncio.Runner(loop_factory=loop_factory(settings)) as runner:
        runner.run(run(settings))
