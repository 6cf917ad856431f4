"""The number of waits for the disk: the part of a lease's speed that can be counted instead of timed.

Each of these tests fails after a regression: a release that waits for the disk doubles the first figure; statements
that are not coalesced, or not for all workers of a process, multiply the others; a failed acquire that locks the row
to look at it has to commit, and that costs a sync of its own.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator

import pytest

from interlock import AsyncInterlock
from support.durable import durable_database, settled_syncs
from support.postgres import execute

REFUSALS = 200


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with durable_database() as url:
        yield url


async def run_cycles(url: str, workers: int, cycles: int, confirm_release: bool) -> None:
    """Run `cycles` acquires and releases in `workers` tasks, each on a name of its own."""
    async with AsyncInterlock(url) as locks:

        async def work(worker: int) -> None:
            lease = locks.lease(f"cycle-{worker}", ttl=30, confirm_release=confirm_release)
            for _ in range(cycles // workers):
                async with lease:
                    pass

        await asyncio.gather(*map(work, range(workers)))


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize("confirm_release", [True, False], ids=["confirmed", "not confirmed"])
@pytest.mark.parametrize(("workers", "cycles", "limit"), [(1, 512, 1.01), (8, 1024, 0.15), (64, 4096, 0.03)])
def test_workers_of_one_process_share_their_waits_for_the_disk(
    url: str,
    workers: int,
    cycles: int,
    limit: float,
    confirm_release: bool,
    record_property: Callable[[str, object], None],
) -> None:
    asyncio.run(run_cycles(url, workers, workers, confirm_release))  # the first use of a name costs more
    before = settled_syncs(url)

    asyncio.run(run_cycles(url, workers, cycles, confirm_release))

    per_cycle = (settled_syncs(url) - before) / cycles
    how = "confirmed" if confirm_release else "not confirmed"
    record_property("figure", f"fsyncs per acquire + release, {how}, {workers} workers: {per_cycle:.3f}")
    assert 0 < per_cycle <= limit


def test_a_failed_acquire_does_not_wait_for_the_disk(url: str) -> None:
    execute(url, "SELECT interlock.acquire_v1('held', %s, 3600, 'another')", uuid.uuid4())
    before = settled_syncs(url)

    async def be_refused() -> list[object]:
        async with AsyncInterlock(url) as locks:
            lease = locks.lease("held", ttl=30)
            return [await lease.try_acquire() for _ in range(REFUSALS)]

    assert asyncio.run(be_refused()) == [None] * REFUSALS
    assert settled_syncs(url) - before == 0
