"""Health checks of running instances, and their records."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from interlock.instances.drivers.local import LocalDriver
from support.failing_driver import FailingDriver
from support.instances import Plane, control_plane
from support.postgres import execute
from support.waiting import eventually

UNFINISHED = "SELECT id FROM interlock.orchestration WHERE name = 'instances.watch_health' AND finished_at IS NULL"

pytestmark = pytest.mark.timeout(200)


@pytest.fixture
def driver(url: str, real: LocalDriver) -> FailingDriver:
    return FailingDriver(lambda: url, lambda: real)


@pytest.fixture
async def plane(url: str, driver: FailingDriver) -> AsyncIterator[Plane]:
    async with control_plane(url, driver) as plane:
        yield plane


async def seen(plane: Plane, id: str, health: str) -> None:  # noqa: A002
    query = "SELECT 1 FROM interlock.instance WHERE id = %s AND health = %s"
    await asyncio.to_thread(eventually, lambda: execute(plane.url, query, id, health), within=60)


async def test_a_silent_instance_is_unhealthy_after_the_threshold_and_healthy_again(
    plane: Plane, driver: FailingDriver
) -> None:
    made = await plane.created("shop")
    driver.fails = "password"
    await seen(plane, made.id, "unhealthy")
    bad = [check for check in await plane.checks(made.id) if not check.healthy]
    assert len(bad) >= 2
    assert all("password authentication failed" in check.detail for check in bad)
    assert (await plane.read(made.id)).state == "running"
    [event] = [event for event in await plane.events(made.id) if event.kind == "unhealthy"]
    assert event.recorded_at == sorted(check.recorded_at for check in bad)[1]
    driver.fails = ""
    await seen(plane, made.id, "healthy")
    times = [check.recorded_at for check in await plane.checks(made.id)]
    assert times == sorted(times, reverse=True)


async def test_only_running_instances_have_a_watcher(plane: Plane) -> None:
    made = await plane.created("shop")
    assert execute(plane.url, UNFINISHED) == [(made.watcher,)]
    restarted = await plane.told(plane.instances.restart, made.id)
    assert restarted.watcher != made.watcher
    await asyncio.to_thread(eventually, lambda: execute(plane.url, UNFINISHED) == [(restarted.watcher,)], within=60)
    await plane.told(plane.instances.stop, made.id)
    await asyncio.to_thread(eventually, lambda: execute(plane.url, UNFINISHED) == [], within=60)
