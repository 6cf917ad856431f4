"""Old history is pruned in batches."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from interlock import AsyncInterlock, errors
from interlock.aggregate.transactions import Transactions
from interlock.instances.context import InstanceContext
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.upkeep.history import History
from interlock.instances.upkeep.schedule import Upkeep
from support.drift import SOON
from support.paper_driver import PaperDns, PaperDriver
from support.postgres import execute

DAY = 86400
COUNTS = """
    SELECT (SELECT count(*) FROM interlock.event), (SELECT count(*) FROM interlock.instance_check),
           (SELECT count(*) FROM interlock.instance_drift)
"""


@pytest.fixture
async def context(url: str, paper: PaperDriver) -> AsyncIterator[InstanceContext]:
    database = Transactions(url, "instances")
    yield InstanceContext(database, "interlock", {"paper": paper}, PaperDns(lambda: url))
    await database.close()


async def test_old_history_is_pruned_and_the_record_stays(url: str, context: InstanceContext) -> None:
    execute(
        url,
        "INSERT INTO interlock.instance (id, name, driver, orchestration, created_by, created_at, updated_at)"
        " VALUES ('a', 'a', 'paper', 'o', 'test', now() - interval '1 year', now() - interval '1 year')",
    )
    days = "now() - make_interval(days => n) + interval '1 minute'"
    execute(
        url,
        f"INSERT INTO interlock.event SELECT 'instance', 'a', {days}, 'come_up', '', 'interlock'"
        " FROM generate_series(1, 20) n;"
        f"INSERT INTO interlock.instance_check SELECT 'a', {days}, true, 1 FROM generate_series(1, 20) n;"
        "INSERT INTO interlock.instance_drift (driver, instance, kind, name, detail, found_at, closed_at)"
        f" SELECT 'paper', 'a', 'dns', 'a', '', {days}, {days} FROM generate_series(1, 20) n;"
        "INSERT INTO interlock.instance_drift (driver, instance, kind, name, detail, found_at)"
        " VALUES ('paper', 'a', 'dns', 'a', '', now() - interval '1 year')",
    )
    history = History(context, events_kept=10 * DAY, checks_kept=3 * DAY)
    assert await history.prune(batch=4) == 10 + 17 + 10
    assert execute(url, COUNTS) == [(10, 3, 11)]
    assert await history.prune(batch=4) == 0
    assert execute(url, "SELECT id FROM interlock.instance") == [("a",)]


async def test_a_failing_job_does_not_stop_the_others(url: str, context: InstanceContext) -> None:
    done = asyncio.Event()

    async def fails() -> None:
        raise errors.OutOfSpace("The disk is full: make room.")

    async def comes_after() -> None:
        done.set()

    async with AsyncInterlock(url) as locks, Upkeep(InstanceLifecycle(context), locks, SOON, [fails, comes_after]):
        async with asyncio.timeout(50):
            await done.wait()
