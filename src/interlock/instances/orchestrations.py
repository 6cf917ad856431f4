"""The order of steps in which instances come, change and go.

One orchestration at a time works on an instance: the one that its record names. It ends by saying so, in the step that
moves the instance into the state that it was asked for. If it fails or is cancelled, its clean-up says how the instance
is, with the error; if another was named meanwhile, which only `delete` does, the clean-up leaves everything to that.

Creation that fails is undone: what was made is removed and seen to be gone, and then, in one transaction, the names
are freed and the record says `failed`. Deletion ends the same way in `deleted`. Where something cannot be removed, the
names stay: what they stand for may still be there.
"""

from datetime import timedelta

from interlock.durable.declared import Orchestrations
from interlock.durable.run import Run
from interlock.errors import ActivityFailed, DatabaseUnreachable, DoNotRetry, DurableError
from interlock.instances.activities import Activities
from interlock.instances.backups.orchestrations import BackupWork
from interlock.instances.drivers.port import Observed
from interlock.instances.health import HealthWatch
from interlock.instances.keeping.orphans import Orphans
from interlock.instances.model import Event
from interlock.instances.moving import Moving
from interlock.instances.surroundings import Surroundings
from interlock.instances.tasks import Failed, Move, Seen, Task

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_DOUBTS = 7
"""So often in a row is it seen down before it is believed that it does not come up."""
_LOOK_AGAIN = 30.0
_VANISHED = Failed("vanished", "Nothing of it is there any more, and nobody deleted it: delete it to free its names.")


class Lifecycle:
    """`work` is what a replica takes part in: ``AsyncDurable(lifecycle.work)``."""

    def __init__(self, here: Surroundings) -> None:
        self.work = work = Orchestrations("instances")
        self.here = here
        self.health = HealthWatch(work, here)
        self.orphans = Orphans(work, here)
        self._do = Activities(work, here, Moving(here, self.health))
        self.undo = work.orchestration(name="undo")(self._undo)
        self.give_up = work.orchestration(name="give_up")(self._give_up)
        self.settle = work.orchestration(name="settle")(self._settle)
        self.create = work.orchestration(name="create", cleanup=self.undo)(self._create)
        self.delete = work.orchestration(name="delete", cleanup=self.give_up)(self._delete)
        self.stop = work.orchestration(name="stop", cleanup=self.settle)(self._stop)
        self.start = work.orchestration(name="start", cleanup=self.settle)(self._start)
        self.restart = work.orchestration(name="restart", cleanup=self.settle)(self._restart)
        self.reset_password = work.orchestration(name="reset_password", cleanup=self.settle)(self._reset_password)
        self.set_parameters = work.orchestration(name="set_parameters", cleanup=self.settle)(self._set_parameters)
        self.mend = work.orchestration(name="mend", cleanup=self.settle)(self._mend)
        self.create_from = work.orchestration(name="create_from", cleanup=self.undo)(self._create_from)
        self.restore = work.orchestration(name="restore", cleanup=self.settle)(self._restore)
        self.backups = BackupWork(work, here, self._do.failure, self._do.is_ended)
        self.resize = work.orchestration(name="resize", cleanup=self.settle)(self._resize)

    async def _create(self, run: Run, task: Task) -> None:
        await run.call(self._do.check, task)
        await run.call(self._do.provision, task)
        await self._come_up(run, task)

    async def _create_from(self, run: Run, task: Task) -> None:
        """What is in it when it comes up is what a backup brought."""
        await run.call(self._do.check, task)
        await run.call(self._do.provision, task)
        await self._reach(run, task, patience=await self._see(run, task, "running"))
        await run.call(self._do.restore, task)
        await self._come_up(run, task)

    async def _undo(self, run: Run, task: Task) -> None:
        """What was made of an instance that could not be created goes again."""
        if await run.call(self._do.standing, task) != "creating":
            return
        failed = await run.call(self._do.failure, task)
        try:
            await self._take_away(run, task)
        except DurableError as error:
            both = Failed(failed.code, f"{failed.message} It could not be undone, so delete it: {error}")
            await run.call(self._do.move, Move(task, "fail", failed=both))
        else:
            await run.call(self._do.move, Move(task, "fail", freed=True, failed=failed))

    async def _delete(self, run: Run, task: Task) -> None:
        pause = _FIRST_PAUSE
        while task.after is not None and not await run.call(self._do.is_ended, task):
            await run.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        await self._take_away(run, task)
        await run.call(self._do.move, Move(task, "vanish", freed=True))

    async def _give_up(self, run: Run, task: Task) -> None:
        """What could not be removed keeps its names, and can be deleted again."""
        if await run.call(self._do.standing, task) == "deleting":
            failed = await run.call(self._do.failure, task)
            await run.call(self._do.move, Move(task, "fail", failed=failed))

    async def _stop(self, run: Run, task: Task) -> None:
        await self._go_down(run, task)
        await run.call(self._do.move, Move(task, "go_down"))

    async def _start(self, run: Run, task: Task) -> None:
        await run.call(self._do.start, task)
        await self._come_up(run, task)

    async def _restart(self, run: Run, task: Task) -> None:
        await self._go_down(run, task)
        await self._start(run, task)

    async def _reset_password(self, run: Run, task: Task) -> None:
        await run.call(self._do.reset_password, task)
        await run.call(self._do.answer, task)
        await run.call(self._do.move, Move(task, None))

    async def _set_parameters(self, run: Run, task: Task) -> None:
        """What takes effect only with a restart is restarted."""
        if await run.call(self._do.set_parameters, task) == "reloaded":
            await run.call(self._do.move, Move(task, None))
        else:
            await run.call(self._do.move, Move(task, "restart", ends=False))
            await self._restart(run, task)

    async def _mend(self, run: Run, task: Task) -> None:
        """It is brought to be as its record says, whatever is wrong with it. What is gone stays gone, and is told."""
        state = await run.call(self._do.standing, task)
        seen = await run.call(self._do.look, task)
        if seen.state == "absent":
            await run.call(self._do.move, Move(task, "fail", failed=_VANISHED))
        elif state == "running" and seen.state in ("stopped", "broken"):
            await run.call(self._do.move, Move(task, "restart", ends=False))
            await self._restart(run, task)
        else:
            if state == "stopped":
                await self._go_down(run, task)
            await run.call(self._do.publish, task)
            await run.call(self._do.move, Move(task, None))

    async def _restore(self, run: Run, task: Task) -> None:
        await run.call(self._do.restore, task)
        await run.call(self._do.move, Move(task, None))

    async def _resize(self, run: Run, task: Task) -> None:
        await run.call(self._do.resize, task)
        await run.call(self._do.move, Move(task, None))

    async def _settle(self, run: Run, task: Task) -> None:
        """What was begun did not come to its end: the record says where the instance is, and why."""
        state = await run.call(self._do.standing, task)
        if state is None:
            return
        event: Event | None = None
        if state in ("starting", "stopping"):
            try:
                seen = await run.call(self._do.look, task)
            except ActivityFailed:
                seen = Seen("starting")
            if seen.state == "starting":
                await run.sleep(_LOOK_AGAIN)
                await run.continue_as_new(task)
            event = {"running": "come_up", "absent": "fail"}.get(seen.state, "go_down")  # type: ignore[assignment]
        failed = await run.call(self._do.failure, task)
        await run.call(self._do.move, Move(task, event, failed=failed))

    async def _come_up(self, run: Run, task: Task) -> None:
        await self._reach(run, task, patience=await self._see(run, task, "running"))
        await run.call(self._do.publish, task)
        await run.call(self._do.move, Move(task, "come_up"))

    async def _go_down(self, run: Run, task: Task) -> None:
        await run.call(self._do.stop, task)
        await self._see(run, task, "stopped", "broken")

    async def _take_away(self, run: Run, task: Task) -> None:
        await run.call(self._do.withdraw, task)
        await run.call(self._do.remove, task)
        await self._see(run, task, "absent")

    async def _reach(self, run: Run, task: Task, patience: float) -> None:
        """A load balancer may tell its address minutes before that leads anywhere."""
        pause, give_up_at = _FIRST_PAUSE, None
        while True:
            try:
                return await run.call(self._do.answer, task)
            except ActivityFailed as failed:
                if failed.code != DatabaseUnreachable.__name__:
                    raise
                now = await run.now()
                give_up_at = give_up_at or now + timedelta(seconds=patience)
                if now >= give_up_at:
                    raise
            await run.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _see(self, run: Run, task: Task, *wanted: Observed) -> float:
        """Look until it is so, with timers that outlive every replica: how many seconds one is patient."""
        pause, waited, doubts = _FIRST_PAUSE, 0.0, 0
        while (seen := await run.call(self._do.look, task)).state not in wanted:
            doubts = doubts + 1 if "running" in wanted and seen.state != "starting" else 0
            if doubts >= _DOUBTS or waited >= seen.patience:
                raise DoNotRetry(
                    f"The instance is {seen.state} and not {wanted[0]}, after {waited:.0f} s. {seen.detail}".strip(),
                    code=f"not_{wanted[0]}",
                )
            await run.sleep(pause)
            waited, pause = waited + pause, min(2 * pause, _LONGEST_PAUSE)
        return seen.patience
