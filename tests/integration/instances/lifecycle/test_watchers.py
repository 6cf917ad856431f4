"""A running instance without a watcher gets exactly one new watcher."""

import asyncio

import pytest

from interlock.aggregate.transactions import Transactions
from interlock.instances.context import InstanceContext
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.upkeep.watchers import Watchers
from support.drift import watching
from support.instances import QUICK, Plane
from support.paper_driver import PaperDns, PaperDriver
from support.postgres import execute
from support.waiting import eventually

pytestmark = pytest.mark.timeout(200)

FINISHED = "SELECT 1 FROM interlock.orchestration WHERE id = %s AND finished_at IS NOT NULL"
UNFINISHED = "SELECT id FROM interlock.orchestration WHERE name = 'instances.watch_health' AND finished_at IS NULL"
CHECKED = "SELECT 1 FROM interlock.instance_check WHERE instance = %s AND recorded_at > %s"


async def seen(plane: Plane, question: str, *args: object) -> None:
    await asyncio.to_thread(eventually, lambda: execute(plane.url, question, *args))


async def without_watcher(plane: Plane, name: str) -> str:
    """An instance whose watcher was ended."""
    made = await plane.created(name)
    assert made.watcher
    await plane.durable.cancel(made.watcher, "test")
    await seen(plane, FINISHED, made.watcher)
    return made.id


@pytest.fixture
def watchers(plane: Plane) -> Watchers:
    return Watchers(plane.lifecycle.context, plane.lifecycle.health)


async def test_an_ended_watcher_is_replaced(plane: Plane, watchers: Watchers) -> None:
    id = await without_watcher(plane, "shop")  # noqa: A001
    await plane.created("other")
    assert await watchers.restore() == 1
    again = await plane.read(id)
    assert (again.watcher,) in execute(plane.url, UNFINISHED)
    await seen(plane, CHECKED, id, again.updated_at)
    assert [event.kind for event in await plane.events(id)].count("watched again") == 1
    assert await watchers.restore() == 0
    assert len(execute(plane.url, UNFINISHED)) == 2


async def test_a_pruned_watcher_is_replaced_only_for_a_running_instance(plane: Plane, watchers: Watchers) -> None:
    id = await without_watcher(plane, "shop")  # noqa: A001
    await plane.durable.prune(0)
    stopped = await plane.created("other")
    await plane.told(plane.instances.stop, stopped.id)
    await plane.told(plane.instances.delete, (await plane.created("third")).id)
    assert await watchers.restore() == 1
    assert execute(plane.url, UNFINISHED) == [((await plane.read(id)).watcher,)]


@pytest.mark.exhaustive
async def test_concurrent_replacements_of_a_watcher_leave_one(plane: Plane, paper: PaperDriver) -> None:
    ids = await asyncio.gather(*(without_watcher(plane, f"db{number}") for number in range(3)))
    databases = [Transactions(plane.url, "instances") for _ in range(5)]
    crowd = []
    for database in databases:
        context = InstanceContext(database, "interlock", {"paper": paper}, PaperDns(lambda: plane.url), QUICK)
        crowd.append(Watchers(context, InstanceLifecycle(context).health))
    restored = await asyncio.gather(*(watchers.restore() for watchers in crowd))
    for database in databases:
        await database.close()
    assert sum(restored) == 3
    named = {(await plane.read(id)).watcher for id in ids}  # noqa: A001
    recorded = execute(plane.url, "SELECT id FROM interlock.orchestration WHERE id LIKE '%%-watch-%%'")
    assert len(recorded) == 3
    assert {watcher for (watcher,) in recorded} == named


@pytest.mark.exhaustive
async def test_it_is_done_by_itself(plane: Plane) -> None:
    id = await without_watcher(plane, "shop")  # noqa: A001
    async with watching(plane) as one, watching(plane) as other, one.upkeep, other.upkeep:
        again = "SELECT 1 FROM interlock.event WHERE subject = %s AND kind = 'watched again'"
        await seen(plane, again, id)
    assert len(execute(plane.url, UNFINISHED)) == 1
