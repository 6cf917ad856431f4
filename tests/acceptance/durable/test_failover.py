"""A standby is promoted after the end of the primary: replicas that name both servers continue, and end cleanly."""

import asyncio
from collections.abc import Callable
from signal import SIGTERM

import pytest

from interlock.durable.replica import AsyncDurable
from interlock.schema import whole_schema
from support.durable_steps import TABLES, three, work
from support.durable_worker import workers
from support.postgres import execute
from support.replication import primary_and_standby
from support.waiting import eventually

pytestmark = pytest.mark.exhaustive

COUNT = 8


@pytest.mark.timeout(180)
async def test_replicas_finish_their_work_on_the_new_primary_and_end_in_good_order(
    record_property: Callable[[str, object], None],
) -> None:
    with primary_and_standby(synchronous=False) as pair:
        execute(pair.primary_url, whole_schema("interlock"))
        execute(pair.primary_url, TABLES)
        with workers(pair.url, 2) as team:
            async with AsyncDurable(work, url=pair.url, concurrency=0) as asking:
                handles = [await asking.start(three, f"three-{number}", 1.0) for number in range(COUNT)]
                some = "SELECT 1 FROM written LIMIT 1"
                await asyncio.to_thread(eventually, lambda: execute(pair.primary_url, some))
                await asyncio.to_thread(pair.stop_primary, "fast")
                await asyncio.to_thread(pair.promote)
                [[promoted_at]] = execute(pair.standby_url, "SELECT clock_timestamp()")
                results = await asyncio.gather(*(handle.wait(100) for handle in handles))
                assert results == [[1, 2, 3]] * COUNT
            for worker in team:
                worker.send(SIGTERM)
            assert [await asyncio.to_thread(worker.process.wait, 100) for worker in team] == [0, 0]
        written = execute(pair.standby_url, "SELECT key, count(*) FROM written GROUP BY key")
        assert {times for _, times in written} == {1}
        assert len(written) == 3 * COUNT
        took = "SELECT extract(epoch FROM min(at) - %s), extract(epoch FROM max(at) - %s) FROM begun WHERE at > %s"
        [[first, last]] = execute(pair.standby_url, took, *[promoted_at] * 3)
        record_property(
            "figure",
            f"durable: {COUNT} of {COUNT} finished after a standby was promoted: the first step was begun there after "
            f"{first:.1f} s, the last after {last:.1f} s",
        )
