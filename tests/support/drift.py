"""Drift in a control plane of the test's own: looked for when the test wants it, and brought about by it."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from interlock.coordination.root import AsyncInterlock
from interlock.instances.drivers.port import Driver, Observation
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.upkeep.findings import DriftFinding
from interlock.instances.upkeep.schedule import Upkeep, UpkeepSchedule
from support.instances import Plane
from support.paper_driver import PaperDriver
from support.postgres import execute

SOON = UpkeepSchedule(drift_every=0.1, confirm_after=0.05, watchers_every=0.1, history_every=0.1)
PATIENCE = 50.0
_LONGEST = 3.0
"""Seconds: longer than it takes from a request to what is done about it."""


class Watch:
    """Looks for drift, and tells what there is."""

    def __init__(self, plane: Plane, upkeep: Upkeep) -> None:
        self.upkeep = upkeep
        self._plane = plane

    async def observe(self) -> list[tuple[str, str]]:
        """Kinds and instances of what is open after a look."""
        await self.upkeep.check_drift_now(PATIENCE)
        return [(one.kind, one.instance) for one in await self.open()]

    async def open(self) -> list[DriftFinding]:
        found: list[DriftFinding] = await self._plane.ask(self.upkeep.repairs.findings.page)
        return found

    async def repair(self) -> str:
        """The only one that is open: its orchestration."""
        [finding] = await self.open()
        repaired: DriftFinding = await self._plane.ask(self.upkeep.repairs.repair, finding.id)
        assert repaired.repair
        return repaired.repair

    def ever(self) -> list[tuple[Any, ...]]:
        """Everything that was ever found."""
        return execute(self._plane.url, "SELECT kind, instance, detail FROM interlock.instance_drift ORDER BY id")


@asynccontextmanager
async def watching(plane: Plane, driver: Driver | None = None) -> AsyncIterator[Watch]:
    """Nothing is done by itself. With a driver, it is looked at with that one."""
    lifecycle = plane.lifecycle
    if driver:
        lifecycle = InstanceLifecycle(replace(lifecycle.context, drivers={driver.name: driver}))
    async with AsyncInterlock(plane.url) as locks:
        yield Watch(plane, Upkeep(lifecycle, locks, SOON))


async def _nothing() -> None:
    """Nobody does anything in between."""


class DawdlingDriver(PaperDriver):
    """On paper, and so slow in looking that instances change meanwhile."""

    async def ids(self) -> dict[str, str]:
        there = dict(await super().ids())
        await asyncio.sleep(random.uniform(0, _LONGEST))
        return there

    async def observe(self, id: str) -> Observation:  # noqa: A002
        await asyncio.sleep(random.uniform(0, _LONGEST))
        return await super().observe(id)


class BusyDriver(PaperDriver):
    """On paper; somebody does something right after it was asked what there is, or before or after a look."""

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
        """What it does looks too."""
        does = getattr(self, when)
        setattr(self, when, _nothing)
        await does()
