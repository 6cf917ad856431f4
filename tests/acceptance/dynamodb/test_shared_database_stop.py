"""The lock under which a database that several applications share is stopped, in the scenarios that it was made for.

A controller marks its application as down, and then, under the lock of the database, stops it if every application
that shares it is down. Who does not get the lock at once waits for it: to skip would leave the database running.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Literal

import pytest

from interlock import AsyncInterlock
from interlock.coordination.lease.grant import AsyncGrant
from support.dynamodb_stores import replicas

Status = Literal["UP", "DOWN", "UNKNOWN"]
LOCK = "DB#i-0abc"


@dataclass
class Landscape:
    apps: dict[str, Status]
    stops: list[int] = field(default_factory=list)
    """The tokens under which the database was stopped."""
    inside: int = 0

    async def stop(self, app: str, locks: AsyncInterlock) -> None:
        self.apps[app] = "DOWN"
        async with locks.lease(LOCK, ttl=10) as grant:
            self.inside += 1
            assert self.inside == 1
            await asyncio.sleep(0)  # gives another task the chance to be here as well
            self._decide(grant)
            self.inside -= 1

    def _decide(self, grant: AsyncGrant) -> None:
        grant.check()
        if set(self.apps.values()) == {"DOWN"} and not self.stops:
            self.stops.append(grant.token)


async def stopped_by_controllers(url: str, landscape: Landscape, *apps: str) -> None:
    """Each by a controller of its own, all at once."""
    async with AsyncExitStack() as stack:
        controllers = [await stack.enter_async_context(AsyncInterlock(url)) for _ in apps]
        await asyncio.gather(*(landscape.stop(app, locks) for app, locks in zip(apps, controllers, strict=True)))


async def test_scenario_1_concurrent_stop_requests(dynamodb_url: str) -> None:
    landscape = Landscape({"a": "UP", "b": "UP"})
    await stopped_by_controllers(dynamodb_url, landscape, "a", "b")
    assert len(landscape.stops) == 1


async def test_scenario_2_sequential_stops(dynamodb_url: str) -> None:
    landscape = Landscape({"a": "UP", "b": "UP"})
    await stopped_by_controllers(dynamodb_url, landscape, "a")
    assert landscape.stops == []
    await stopped_by_controllers(dynamodb_url, landscape, "b")
    assert len(landscape.stops) == 1


async def test_scenario_3_lock_contention(dynamodb_url: str) -> None:
    apps = [f"app-{number}" for number in range(8)]
    landscape = Landscape(dict.fromkeys(apps, "UP"))
    await stopped_by_controllers(dynamodb_url, landscape, *apps)
    assert len(landscape.stops) == 1


async def test_unknown_counts_as_up(dynamodb_url: str) -> None:
    landscape = Landscape({"a": "UP", "b": "UNKNOWN"})
    await stopped_by_controllers(dynamodb_url, landscape, "a")
    assert landscape.stops == []


async def test_three_apps_one_after_the_other(dynamodb_url: str) -> None:
    landscape = Landscape({"a": "UP", "b": "UP", "c": "UP"})
    seen = []
    for app in landscape.apps:
        await stopped_by_controllers(dynamodb_url, landscape, app)
        seen.append(len(landscape.stops))
    assert seen == [0, 0, 1]


async def test_only_the_owner_releases(dynamodb_url: str) -> None:
    async with replicas(dynamodb_url, "controller-1", "controller-2") as (first, second):
        grant = await first.take(LOCK)
        async with AsyncInterlock(dynamodb_url) as locks:
            assert await second.gives_back(grant._replace(token=grant.token + 1)) == "lost"
            assert await locks.lease(LOCK).try_acquire() is None
        assert await first.keeps(grant)


HOLDER = """
import sys
from interlock import Interlock
with Interlock(sys.argv[1]) as locks, locks.lease(sys.argv[2], ttl=2) as grant:
    print(grant.token, flush=True)
    sys.stdin.read()
"""


@pytest.mark.exhaustive(beyond=1)
async def test_lock_timeout_after_a_controller_was_killed(
    dynamodb_url: str, record_property: Callable[[str, object], None]
) -> None:
    async with AsyncInterlock(dynamodb_url) as locks:
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, dynamodb_url, LOCK, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert holder.stdout is not None
            token = int(await holder.stdout.readline())
            assert await locks.lease(LOCK, ttl=2).try_acquire() is None
        finally:
            holder.kill()
            await holder.wait()
        killed_at = time.monotonic()
        async with locks.lease(LOCK, ttl=2) as grant:
            took = time.monotonic() - killed_at
            assert grant.token > token
    record_property("figure", f"DynamoDB: take-over {took:.2f} s after the holder of a lease of 2 s was killed")
