"""A periodic singleton: at each tick one replica runs it, and if that one dies another does.

Who may do what. When a tick has come, every replica queues for the lease. Whoever has it reads how far things are, and
runs what is due: it records that the tick was begun, runs, and records that it is finished, each only while the lease
is held. The next in the queue finds nothing left to do, or a tick that was begun and not finished: then its runner
died, or lost the lease, and it is run again. Ticks are told by the store's clock, from when the lease was granted.

A clock that is ahead for a moment. Whoever goes by it runs a tick of a time that has not come, and records that. When
the clock is right again, nobody waits for that time. Whoever finds a tick recorded that cannot have come queues for the
lease, by which it learns the time anew; if the record is ahead of that as well, it is set back to the newest tick that
may not have been run. So a tick may be run twice, one run after the other.

What a crash leaves behind. Before the first record: nothing. Between the two: a tick that somebody else runs again, as
soon as the lease has expired. After the second: nothing to do.
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
"""Then the clocks are looked at again: that of the event loop stands still while the machine is suspended."""
_PATIENCE = 2.0
_APART = 10.0
"""Seconds by which clocks may differ, where each replica goes by its own: what one ran so early is not run again."""
_AWAY = (errors.ConnectionLost, errors.DatabaseUnreachable, errors.LockNotAvailable, errors.NotPrimary)


class _Progress(NamedTuple):
    tick: float
    finished: bool


class AsyncPeriodic:
    """Runs while it is entered, or for as long as `run` does."""

    def __init__(
        self,
        engine: "Callable[[], Engine]",
        settings: LeaseSettings,
        schedule: Schedule,
        missed: Missed,
        function: Callable[[AsyncGrant], Awaitable[object]],
    ) -> None:
        self.tick: datetime | None = None
        """The tick that is being run, in this process."""
        self._engine = engine
        self._settings = settings
        self._key = part(settings.name, "every")
        self._schedule = schedule
        self._missed = missed
        self._function = function
        self._ahead: float | None = None
        self._until: Callable[[], bool] = lambda: False
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._settings.name

    async def run(self, until: Callable[[], bool] = lambda: False, *, patient: bool = False) -> None:
        """For ever, or until that is so after a run. A database that is away is waited for, once it was reached.

        `patient`: also before, as where it is entered: nobody would hear of the error before the block ends.
        """
        self._until = until
        while not until():
            try:
                pause = await self._take_turn()
            except errors.LeaseLost:
                pause = 0.0  # another may have it now, or nobody: look
            except _AWAY as error:
                if self._ahead is None and not patient:
                    raise
                log.warning("periodic.database_away", extra={"lease": self.name, "why": str(error)})
                pause = _PATIENCE * random.uniform(0.5, 1.0)
            if not until():
                await asyncio.sleep(min(pause, _LONGEST_SLEEP))

    def in_background(self) -> "asyncio.Task[None]":
        """Until it is cancelled, whatever the store or this machine refuse meanwhile: for what nobody begins again."""
        task = asyncio.create_task(self._keep_on())
        task.add_done_callback(self._ended)
        return task

    async def _keep_on(self) -> None:
        while True:
            try:
                await self.run(patient=True)
            except (errors.InterlockError, OSError) as error:
                log.warning("periodic.begins_again", extra={"lease": self.name, "why": str(error)})
                await asyncio.sleep(_PATIENCE)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(patient=True))
        self._task.add_done_callback(self._ended)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """A run that is under way is cancelled, and another replica runs that tick again."""
        task, self._task = self._task, None
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # raises what ended it before

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Nobody looks at the task before the block ends, which may be in a week."""
        if not task.cancelled() and (error := task.exception()):
            log.error("periodic.ended", extra={"lease": self.name, "why": str(error)})

    async def _take_turn(self) -> float:
        """Run what is due. The answer is for how long nothing will be."""
        engine = self._engine()
        if self._ahead is not None:  # whoever knows the time sees without the lease that there is nothing to do
            progress = await self._progress(engine)
            if progress and progress.finished and not self._due(progress.tick) and not self._is_ahead(progress.tick):
                return self._until_next()
        async with await self._settings.acquire(engine, asyncio.current_task(), None, AsyncGrant) as grant:
            await self._set_clock(engine, grant)
            await self._run_due(engine, grant)
        return self._until_next()

    async def _run_due(self, engine: "Engine", grant: AsyncGrant) -> None:
        progress = await self._progress(engine)
        if progress is None:  # nobody has ever run this: it begins with the next tick
            progress = _Progress(self._schedule.last(self._now()), finished=True)
            await self._note(engine, grant, progress)
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
        """Nobody knows whether the newest tick was run: it is due. What was begun is run again, as that one."""
        log.warning("periodic.clock_was_ahead", extra={"lease": self.name, "tick": as_date(progress.tick).isoformat()})
        newest = self._schedule.last(self._now())
        tick = self._schedule.before(newest) if progress.finished else newest
        progress = progress._replace(tick=tick)
        await self._note(engine, grant, progress)
        return progress

    async def _run(self, engine: "Engine", grant: AsyncGrant, tick: float) -> None:
        await self._note(engine, grant, _Progress(tick, finished=False))
        self.tick = as_date(tick)
        try:
            await self._function(grant)
        except Exception:  # the next tick is another chance
            if grant.lost:
                raise grant.error() from None
            log.exception("periodic.failed", extra={"lease": self.name, "tick": self.tick.isoformat()})
        finally:
            self.tick = None
        await self._note(engine, grant, _Progress(tick, finished=True))

    async def _progress(self, engine: "Engine") -> _Progress | None:
        record = await engine.records.read(self._key)
        return None if record is None else _Progress(**json.loads(record.value))

    async def _note(self, engine: "Engine", grant: AsyncGrant, progress: _Progress) -> None:
        await engine.records.write(self._key, json.dumps(progress._asdict()), grant)

    async def _set_clock(self, engine: "Engine", grant: AsyncGrant) -> None:
        """By when the store says that it granted this. We heard of that later, so no tick seems to come too soon."""
        mine = [lease for lease in await self._settings.holders(engine) if lease.token == grant.token]
        if not mine:
            raise errors.LeaseLost(
                f"The lease {self.name!r} is not held any more: another may have it.", name=self.name, token=grant.token
            )
        self._ahead = mine[0].acquired_at - grant.acquired_at

    def _now(self) -> float:
        assert self._ahead is not None
        return boottime() + self._ahead

    def _due(self, done: float) -> list[float]:
        return due(self._schedule, done, self._now(), self._missed)

    def _is_ahead(self, tick: float) -> bool:
        """Whether it cannot have come yet. The next one may have been run by a clock that is a little ahead of ours."""
        return tick > self._schedule.after(self._schedule.last(self._now() + _APART))

    def _until_next(self) -> float:
        now = self._now()
        return max(0.0, self._schedule.after(self._schedule.last(now)) - now)
