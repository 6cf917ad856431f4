"""Drift in the test's own control plane: the test causes it, and decides when it is checked for."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from interlock.coordination.root import AsyncInterlock
from interlock.instances.drivers.port import Driver, Observation
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.upkeep.findings import Finding
from interlock.instances.upkeep.schedule import Upkeep, UpkeepSchedule
from support.instances import Plane
from support.paper_driver import PaperDriver
from support.postgres import execute

SOON = UpkeepSchedule(drift_every=0.1, confirm_after=0.05, watchers_every=0.1, history_every=0.1)
PATIENCE = 50.0
_LONGEST = 3.0
"""Seconds: longer than the time from a request to its effect."""


class Watch:
    """Checks for drift and lists the findings."""

    def __init__(self, plane: Plane, upkeep: Upkeep) -> None:
        self.upkeep = upkeep
        self._plane = plane

    async def observe(self) -> list[tuple[str, str]]:
        """The kinds and instances of the open findings after a check."""
        await self.upkeep.check_drift_now(PATIENCE)
        return [(one.kind, one.instance) for one in await self.open()]

    async def open(self) -> list[Finding]:
        found: list[Finding] = await self._plane.ask(self.upkeep.repairs.findings.page)
        return found

    async def repair(self) -> str:
        """Repair the only open finding. Returns the orchestration."""
        [finding] = await self.open()
        repaired: Finding = await self._plane.ask(self.upkeep.repairs.repair, finding.id)
        assert repaired.repair
        return repaired.repair

    def ever(self) -> list[tuple[Any, ...]]:
        """All findings, also closed ones."""
        return execute(self._plane.url, "SELECT kind, instance, detail FROM interlock.instance_drift ORDER BY id")


@asynccontextmanager
async def watching(plane: Plane, driver: Driver | None = None) -> AsyncIterator[Watch]:
    """Drift checks without a schedule. `driver` replaces the plane's driver."""
    lifecycle = plane.lifecycle
    if driver:
        lifecycle = InstanceLifecycle(replace(lifecycle.context, drivers={driver.name: driver}))
    async with AsyncInterlock(plane.url) as locks:
        yield Watch(plane, Upkeep(lifecycle, locks, SOON))


async def _nothing() -> None:
    """Does nothing."""


class DawdlingDriver(PaperDriver):
    """A fake driver that observes so slowly that instances change meanwhile."""

    async def ids(self) -> dict[str, str]:
        there = dict(await super().ids())
        await asyncio.sleep(random.uniform(0, _LONGEST))
        return there

    async def observe(self, id: str) -> Observation:  # noqa: A002
        await asyncio.sleep(random.uniform(0, _LONGEST))
        return await super().observe(id)


class BusyDriver(PaperDriver):
    """A fake driver that calls a function after it has listed the instances, or before or after it observes one."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.after_ids: Callable[[], Awaitable[Any]] = _nothing
        self.before_look: Callable[[], Awaitable[Any]] = _nothing
        self.after_look: Callable[[], Awaitable[Any]] = _nothing

    async def ids(self) -> dict[str, str]:
        there = dict(await super().ids())
        await self._once("after_ids")
        return there

    async def observe(self, id: str) -> Observation:  # noqa: A002
        await self._once("before_look")
        observation = await super().observe(id)
        await self._once("after_look")
        return observation

    async def _once(self, when: str) -> None:
        """Called once, because the function itself observes too."""
        does = getattr(self, when)
        setattr(self, when, _nothing)
        await does()
