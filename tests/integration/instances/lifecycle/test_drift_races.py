"""Instances are created, changed and deleted during drift checks: running work is no drift."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from interlock.errors import LeaseLost
from interlock.instances.drivers.local import LocalDriver
from support.drift import BusyDriver, DawdlingDriver, watching
from support.failing_driver import FailingDriver
from support.instances import Plane, control_plane
from support.paper_driver import PaperDns
from support.postgres import execute
from support.waiting import eventually

pytestmark = pytest.mark.timeout(300)

HAMMERED, ROUNDS = 6, 3
LOOKS = 5
LOOKED_AT = "SELECT looked_at FROM interlock.instance_look"


@pytest.fixture
def driver(url: str, real: LocalDriver) -> BusyDriver:
    return BusyDriver(lambda: url, lambda: real)


@pytest.fixture
async def plane(url: str, driver: BusyDriver) -> AsyncIterator[Plane]:
    async with control_plane(url, driver, dns=PaperDns(lambda: url)) as plane:
        yield plane


@pytest.mark.exhaustive
@pytest.mark.parametrize("moment", ["after_ids", "before_look", "after_look"])
async def test_changes_during_a_check_are_no_drift(plane: Plane, driver: BusyDriver, moment: str) -> None:
    verbs = ["delete", "stop", "start", "restart"]
    made = await asyncio.gather(*(plane.created(verb, dns_name=f"{verb}.example.com") for verb in verbs))
    ids = {one.name: one.id for one in made}
    await plane.told(plane.instances.stop, ids["start"])

    async def does() -> None:
        done = [plane.told(getattr(plane.instances, verb), ids[verb]) for verb in verbs]
        await asyncio.gather(plane.created("create", dns_name="create.example.com"), *done)

    async with watching(plane) as watch:
        setattr(driver, moment, does)
        assert await watch.observe() == []
        assert execute(plane.url, "SELECT count(*) FROM interlock.instance WHERE NOT working") == [(5,)]
        assert await watch.observe() == []
        assert watch.ever() == []


@pytest.mark.exhaustive
async def test_an_instance_with_running_work_has_not_drifted(url: str, real: LocalDriver) -> None:
    slow = FailingDriver(lambda: url, lambda: real, fails="slow provision")
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(control_plane(url, slow, dns=PaperDns(lambda: url)))
        watch = await stack.enter_async_context(watching(plane))
        stack.callback(slow.held.set)  # closing waits for the slow operation
        asked = await plane.create("shop", dns_name="db.example.com")
        await slow.reached.wait()
        assert await watch.observe() == []
        slow.held.set()
        assert (await plane.done(asked)).state == "running"

        slow.fails = ""
        assert (await plane.told(plane.instances.stop, asked.id)).state == "stopped"
        execute(url, "UPDATE paper SET state = 'running'")
        slow.hold("slow stop")
        mending = await plane.ask(plane.instances.mend, asked.id)
        await slow.reached.wait()
        assert await watch.observe() == []
        slow.held.set()
        assert (await plane.done(mending)).state == "stopped"

        slow.hold("slow remove")
        asked = await plane.ask(plane.instances.delete, asked.id)
        await slow.reached.wait()
        assert await watch.observe() == []
        slow.held.set()
        assert (await plane.done(asked)).state == "deleted"
        assert await watch.observe() == []
        assert watch.ever() == []


async def test_observations_of_a_replica_that_lost_its_lease_are_not_written(plane: Plane, driver: BusyDriver) -> None:
    made = await plane.created("shop")
    execute(plane.url, "UPDATE paper SET state = 'stopped'")

    async def take_it_away() -> None:
        broken = "SELECT interlock.break_v1(name, true, true, 'test', 'test') FROM interlock.held_v1('')"
        await asyncio.to_thread(execute, plane.url, broken + " WHERE name LIKE '%%drift'")

    async with watching(plane) as watch:
        driver.after_look = take_it_away
        with pytest.raises(LeaseLost):
            await watch.observe()
        assert watch.ever() == []
        assert await watch.observe() == [("wrong_state", made.id)]


@pytest.mark.exhaustive
async def test_nothing_is_found_falsely_while_instances_come_and_go_all_the_time(
    plane: Plane, real: LocalDriver
) -> None:
    """Two replicas check for drift continuously, while instances are changed all the time."""
    looked: set[Any] = set()

    async def hammer(number: int) -> None:
        round_ = 0
        while round_ < ROUNDS or len(looked) < LOOKS:
            made = await plane.created(f"db{number}", dns_name=f"db{number}.example.com")
            assert made.state == "running"
            looked.update(execute(plane.url, LOOKED_AT))
            for verb in [plane.instances.stop, plane.instances.start][: 2 * (round_ % 2)]:
                assert (await plane.told(verb, made.id)).error is None
            assert (await plane.told(plane.instances.delete, made.id)).state == "deleted"
            looked.update(execute(plane.url, LOOKED_AT))
            round_ += 1

    async with AsyncExitStack() as stack:
        dawdling = DawdlingDriver(lambda: plane.url, lambda: real)
        watches = [await stack.enter_async_context(watching(plane, dawdling)) for _ in range(2)]
        for watch in watches:
            await stack.enter_async_context(watch.upkeep)
        await asyncio.gather(*(hammer(number) for number in range(HAMMERED)))
        assert watch.ever() == []
        execute(plane.url, "INSERT INTO paper (id, name, state) VALUES ('unheard-of', 'stray', 'running')")
        found = "SELECT kind FROM interlock.instance_drift"
        await asyncio.to_thread(eventually, lambda: execute(plane.url, found) == [("orphan",)])
