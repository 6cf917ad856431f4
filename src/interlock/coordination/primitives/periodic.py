"""A periodic singleton: at each tick one replica runs the function; if that replica dies, another replica runs it.

**Order.** When a tick is due, every replica waits in the queue for the lease. The holder of the lease reads the
recorded progress and runs the ticks that are due. For each tick it records that the tick was begun, runs the function,
and records that the tick is finished; it can write these records only while it holds the lease. The next replica in the
queue finds nothing to do, or a tick that was begun and not finished: then the earlier replica died or lost the lease,
so the tick is run again. Ticks follow the store's clock; a replica knows that clock from the time at which its lease
was granted.

**A clock that is ahead for a moment.** A replica that follows such a clock runs a tick whose time has not come, and
records it. When the clock is right again, no replica waits for the recorded time. A replica that finds a recorded tick
which cannot have been due yet waits in the queue for the lease, and so learns the time again. If the record is ahead of
that time too, the replica sets it back to the newest tick that may not have been run. So a tick may be run twice, one
run after the other.

**After a crash.** Before the first record there is nothing to clean up. Between the two records, another replica runs
the tick again as soon as the lease has expired. After the second record there is nothing left to do.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Self

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import LeaseSettings
from interlock.coordination.lease.name import part
from interlock.coordination.primitives.schedule import Missed, Schedule, as_date, due
from interlock.logs import events

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine

log = events(__name__)

_LONGEST_SLEEP = 60.0
"""After so many seconds the clocks are read again, because the event loop's clock stands still while the machine is
suspended."""
_RETRY_AFTER = 2.0
_CLOCK_DIFFERENCE = 10.0
"""Seconds by which the replicas' clocks may differ: a tick that was run too early by no more than that is not run
again."""
_UNREACHABLE = (errors.ConnectionLost, errors.DatabaseUnreachable, errors.LockNotAvailable, errors.NotPrimary)


class _Progress(NamedTuple):
    tick: float
    finished: bool


class AsyncPeriodic:
    """A function that runs at each tick, while this object is entered or while `run` is awaited."""

    def __init__(
        self,
        engine: "Callable[[], Engine]",
        settings: LeaseSettings,
        schedule: Schedule,
        missed: Missed,
        function: Callable[[AsyncGrant], Awaitable[object]],
    ) -> None:
        self.tick: datetime | None = None
        """The tick that this process runs now; None between two runs."""
        self._engine = engine
        self._settings = settings
        self._key = part(settings.name, "every")
        self._schedule = schedule
        self._missed = missed
        self._function = function
        self._clock_offset: float | None = None
        self._until: Callable[[], bool] = lambda: False
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._settings.name

    async def run(self, until: Callable[[], bool] = lambda: False, *, wait_for_database: bool = False) -> None:
        """Run the function at each tick, without end, or until `until` returns True after a run. Waits for a database
        that becomes unreachable.

        With `wait_for_database` it also waits for a database that was never reached. A block uses that, because an
        error before the first run would only be raised at the end of the block.
        """
        self._until = until
        while not until():
            try:
                pause = await self._run_once()
            except errors.LeaseLost:
                pause = 0.0  # another replica may hold it now, or none: check
            except _UNREACHABLE as error:
                if self._clock_offset is None and not wait_for_database:
                    raise
                log.warning("periodic.database_away", extra={"lease": self.name, "why": str(error)})
                pause = _RETRY_AFTER * random.uniform(0.5, 1.0)
            if not until():
                await asyncio.sleep(min(pause, _LONGEST_SLEEP))

    def in_background(self) -> "asyncio.Task[None]":
        """Run in a task until the task is cancelled. After errors of the store or of this machine, start again."""
        task = asyncio.create_task(self._run_with_restarts())
        task.add_done_callback(self._ended)
        return task

    async def _run_with_restarts(self) -> None:
        while True:
            try:
                await self.run(wait_for_database=True)
            except (errors.InterlockError, OSError) as error:
                log.warning("periodic.begins_again", extra={"lease": self.name, "why": str(error)})
                await asyncio.sleep(_RETRY_AFTER)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(wait_for_database=True))
        self._task.add_done_callback(self._ended)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Cancel the current run, if there is one; another replica runs that tick again."""
        task, self._task = self._task, None
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # raises the error that ended it before

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Log the error now: the block that will raise it may end in a week."""
        if not task.cancelled() and (error := task.exception()):
            log.error("periodic.ended", extra={"lease": self.name, "why": str(error)})

    async def _run_once(self) -> float:
        """Run the ticks that are due. Returns the seconds until the next tick."""
        engine = self._engine()
        if self._clock_offset is not None:  # the time is known, so the lease is not needed to find nothing due
            progress = await self._progress(engine)
            if progress and progress.finished and not self._due(progress.tick) and not self._is_ahead(progress.tick):
                return self._until_next()
        async with await self._settings.acquire(engine, asyncio.current_task(), None, AsyncGrant) as grant:
            await self._set_clock(engine, grant)
            await self._run_due(engine, grant)
        return self._until_next()

    async def _run_due(self, engine: "Engine", grant: AsyncGrant) -> None:
        progress = await self._progress(engine)
        if progress is None:  # it was never run: it begins with the next tick
            progress = _Progress(self._schedule.last(self._now()), finished=True)
            await self._record(engine, grant, progress)
        elif self._is_ahead(progress.tick):
            progress = await self._set_back(engine, grant, progress)
        if not progress.finished:
            log.warning("periodic.taken_over", extra={"lease": self.name, "tick": as_date(progress.tick).isoformat()})
            await self._run(engine, grant, progress.tick)
        done = progress.tick
        while ticks := self._due(done):
            for done in ticks:
                if self._until():
                    return
                await self._run(engine, grant, done)

    async def _set_back(self, engine: "Engine", grant: AsyncGrant, progress: _Progress) -> _Progress:
        """Set the recorded progress back. The newest tick may not have been run, so it becomes due. If the recorded
        tick was begun and not finished, the newest tick is run again in its place."""
        log.warning("periodic.clock_was_ahead", extra={"lease": self.name, "tick": as_date(progress.tick).isoformat()})
        newest = self._schedule.last(self._now())
        tick = self._schedule.before(newest) if progress.finished else newest
        progress = progress._replace(tick=tick)
        await self._record(engine, grant, progress)
        return progress

    async def _run(self, engine: "Engine", grant: AsyncGrant, tick: float) -> None:
        await self._record(engine, grant, _Progress(tick, finished=False))
        self.tick = as_date(tick)
        try:
            await self._function(grant)
        except Exception as error:  # the next tick is another chance
            if grant.lost:
                raise grant.error() from None
            facts = {"lease": self.name, "tick": self.tick.isoformat()}
            if isinstance(error, errors.StoreError):  # its message says all
                log.error("periodic.failed", extra={**facts, "why": str(error)})
            else:
                log.exception("periodic.failed", extra=facts)
        finally:
            self.tick = None
        await self._record(engine, grant, _Progress(tick, finished=True))

    async def _progress(self, engine: "Engine") -> _Progress | None:
        record = await engine.records.read(self._key)
        return None if record is None else _Progress(**json.loads(record.value))

    async def _record(self, engine: "Engine", grant: AsyncGrant, progress: _Progress) -> None:
        await engine.records.write(self._key, json.dumps(progress._asdict()), grant)

    async def _set_clock(self, engine: "Engine", grant: AsyncGrant) -> None:
        """Set the clock from the store's time of this grant. The reply came later than that time, so no tick is taken
        as due too early."""
        own = [lease for lease in await self._settings.holders(engine) if lease.token == grant.token]
        if not own:
            raise errors.LeaseLost(
                f"The lease {self.name!r} is not held any more, and another replica may hold it: stop this run.",
                name=self.name,
                token=grant.token,
            )
        self._clock_offset = own[0].acquired_at - grant.acquired_at

    def _now(self) -> float:
        assert self._clock_offset is not None
        return boottime() + self._clock_offset

    def _due(self, done: float) -> list[float]:
        return due(self._schedule, done, self._now(), self._missed)

    def _is_ahead(self, tick: float) -> bool:
        """Return True if the tick cannot be due yet. A replica whose clock is a little ahead may have run the next tick
        already."""
        return tick > self._schedule.after(self._schedule.last(self._now() + _CLOCK_DIFFERENCE))

    def _until_next(self) -> float:
        now = self._now()
        return max(0.0, self._schedule.after(self._schedule.last(now)) - now)
