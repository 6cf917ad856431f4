"""The periodic singletons of instances: every replica enters them, and one at a time does the work."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.root import AsyncInterlock
from interlock.errors import ConfigurationError, InterlockError
from interlock.instances.orchestrations import Lifecycle
from interlock.instances.upkeep.drift import DriftWatch
from interlock.instances.upkeep.history import History
from interlock.instances.upkeep.repairs import Repairs
from interlock.instances.upkeep.watchers import Watchers
from interlock.logs import events

log = events(__name__)

_DRIFT = "interlock:instances:drift"
_DAY = 86400.0


@dataclass(frozen=True)
class UpkeepSchedule:
    """In seconds. `moment`: what has drifted has to be seen twice, so far apart."""

    drift_every: float = 300.0
    drift_repair: bool = False
    moment: float = 5.0
    watchers_every: float = 30.0
    history_every: float = 3600.0
    events_kept: float = 90 * _DAY
    checks_kept: float = 7 * _DAY
    ttl: float = 30.0
    """After so long another goes on where one died."""

    def __post_init__(self) -> None:
        times = (
            self.drift_every,
            self.moment,
            self.watchers_every,
            self.history_every,
            self.events_kept,
            self.checks_kept,
        )
        if not all(0 < each < math.inf for each in times):
            raise ConfigurationError(f"{self!r} cannot work: times have to be above 0 s.")


class Upkeep:
    """Works while it is entered, and `locks` is open as long. `chores` are done when history is pruned."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        locks: AsyncInterlock,
        habits: UpkeepSchedule,
        chores: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        context = lifecycle.context
        self._locks = locks
        self.drift_lease = locks.lease(_DRIFT, ttl=habits.ttl)
        self._habits = habits
        self._watchers = Watchers(context, lifecycle.health)
        self._drift = DriftWatch(context, moment=habits.moment)
        self._history = History(context, events_kept=habits.events_kept, checks_kept=habits.checks_kept)
        self._chores = (self._history.prune, *chores)
        self.repairs = Repairs(lifecycle)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        every, habits, ttl = self._locks.every, self._habits, self._habits.ttl
        kept = (
            every(habits.watchers_every, "interlock:instances:watchers", missed="skip", ttl=ttl)(self._watch),
            every(habits.drift_every, _DRIFT, missed="skip", ttl=ttl)(self._compare),
            every(habits.history_every, "interlock:instances:history", missed="skip", ttl=ttl)(self._tidy),
        )
        self._tasks = [one.in_background() for one in kept]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """What is under way is cut short, and done again by another replica."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def look_now(self, timeout: float) -> None:
        """For drift, without waiting for its time, and alone as ever. Raises `LeaseTimeout` if another look is long."""
        async with self.drift_lease.acquire(timeout=timeout) as grant:
            await self._drift.look(grant)

    async def _watch(self, grant: AsyncGrant) -> None:
        await self._watchers.restore()

    async def _compare(self, grant: AsyncGrant) -> None:
        await self._drift.look(grant)
        if self._habits.drift_repair:
            await self.repairs.repair_all(grant)

    async def _tidy(self, grant: AsyncGrant) -> None:
        """Each for itself: one that fails holds up none of the others."""
        for chore in self._chores:
            try:
                await chore()
            except (InterlockError, OSError) as error:
                grant.check()
                log.warning("keeper.chore_failed", extra={"why": str(error)})
