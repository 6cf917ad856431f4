"""The schedule of the maintenance jobs. Every replica runs the schedule, and one replica at a time runs a job."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.root import AsyncInterlock
from interlock.errors import ConfigurationError, InterlockError
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.upkeep.drift import DriftCheck
from interlock.instances.upkeep.history import History
from interlock.instances.upkeep.repairs import Repairs
from interlock.instances.upkeep.watchers import Watchers
from interlock.logs import events

log = events(__name__)

_DRIFT = "interlock:instances:drift"
_DAY = 86400.0


@dataclass(frozen=True)
class UpkeepSchedule:
    """Durations in seconds. Drift has to be observed twice, `confirm_after` apart."""

    drift_every: float = 300.0
    drift_repair: bool = False
    confirm_after: float = 5.0
    watchers_every: float = 30.0
    history_every: float = 3600.0
    events_kept: float = 90 * _DAY
    checks_kept: float = 7 * _DAY
    ttl: float = 30.0
    """The time after which another replica takes over from one that died."""

    def __post_init__(self) -> None:
        times = (
            self.drift_every,
            self.confirm_after,
            self.watchers_every,
            self.history_every,
            self.events_kept,
            self.checks_kept,
        )
        if not all(0 < each < math.inf for each in times):
            raise ConfigurationError(f"{self!r} cannot work: use times above 0 s.")


class Upkeep:
    """Runs the jobs inside its `async with` block; `locks` has to stay open until the block ends.

    `jobs` are further jobs that run together with the pruning of history.
    """

    def __init__(
        self,
        lifecycle: InstanceLifecycle,
        locks: AsyncInterlock,
        schedule: UpkeepSchedule,
        jobs: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        context = lifecycle.context
        self._locks = locks
        self.drift_lease = locks.lease(_DRIFT, ttl=schedule.ttl)
        self._schedule = schedule
        self._watchers = Watchers(context, lifecycle.health)
        self._drift = DriftCheck(context, confirm_after=schedule.confirm_after)
        self._history = History(context, events_kept=schedule.events_kept, checks_kept=schedule.checks_kept)
        self._jobs = (self._history.prune, *jobs)
        self.repairs = Repairs(lifecycle)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        every, schedule, ttl = self._locks.every, self._schedule, self._schedule.ttl
        jobs = (
            every(schedule.watchers_every, "interlock:instances:watchers", missed="skip", ttl=ttl)(
                self._restore_watchers
            ),
            every(schedule.drift_every, _DRIFT, missed="skip", ttl=ttl)(self._check_drift),
            every(schedule.history_every, "interlock:instances:history", missed="skip", ttl=ttl)(self._run_jobs),
        )
        self._tasks = [job.in_background() for job in jobs]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Cancel the running jobs. Another replica runs them again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def check_drift_now(self, timeout: float) -> None:
        """Check for drift now, under the same lease.

        Raises `LeaseTimeout` if another check holds the lease for longer than `timeout` seconds.
        """
        async with self.drift_lease.acquire(timeout=timeout) as grant:
            await self._drift.run(grant)

    async def _restore_watchers(self, grant: AsyncGrant) -> None:
        await self._watchers.restore()

    async def _check_drift(self, grant: AsyncGrant) -> None:
        await self._drift.run(grant)
        if self._schedule.drift_repair:
            await self.repairs.repair_all(grant)

    async def _run_jobs(self, grant: AsyncGrant) -> None:
        """Run each job. A job that fails does not stop the others."""
        for job in self._jobs:
            try:
                await job()
            except (InterlockError, OSError) as error:
                grant.check()
                log.warning("upkeep.job_failed", extra={"why": str(error)})
