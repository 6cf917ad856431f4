"""The order of steps in which instances come, change and go.

One orchestration at a time works on an instance: the one that its record names. It ends by saying so, in the step that
moves the instance into the state that it was asked for. If it fails or is cancelled, its clean-up says how the instance
is, with the error; if another was named meanwhile, which only `delete` does, the clean-up leaves everything to that.

Creation that fails is undone: what was made is removed and seen to be gone, and then, in one transaction, the names
are freed and the record says `failed`. Deletion ends the same way in `deleted`. Where something cannot be removed, the
names stay: what they stand for may still be there. They are freed then only if somebody says so, by abandoning it.
"""

from interlock.aggregate.record import Failure, Task, Transition
from interlock.aggregate.wait import wait_until
from interlock.durable.declarations import Orchestrations
from interlock.durable.run import Run
from interlock.errors import ActivityFailed, DoNotRetry, DurableError
from interlock.instances.activities import InstanceActivities
from interlock.instances.backups.orchestrations import BackupLifecycle
from interlock.instances.context import InstanceContext
from interlock.instances.drivers.port import Observed
from interlock.instances.health import HealthWatch
from interlock.instances.model import Event
from interlock.instances.tasks import VANISHED, ObservedState, ProbeResult, Resize, Restoration, SetParameters
from interlock.instances.upkeep.orphans import Orphans

_DOUBTS = 7
"""So often in a row is it seen down before it is believed that it does not come up."""
_LOOK_AGAIN = 30.0
_MIDWAY = 180.0
"""Seconds that what is on its way, up or down, is given after its work has ended: it had its time before."""


class InstanceLifecycle:
    """`parts` is what a replica takes part in: ``AsyncDurable(*lifecycle.parts)``."""

    def __init__(self, context: InstanceContext) -> None:
        work = Orchestrations("instances")
        self.context = context
        self.health = HealthWatch(work, context)
        self.orphans = Orphans(work, context)
        self._activities = InstanceActivities(work, context, self.health)
        self.undo = work.orchestration(name="undo")(self._undo)
        self.give_up = work.orchestration(name="give_up")(self._give_up)
        self.settle = work.orchestration(name="settle")(self._settle)
        self.create = work.orchestration(name="create", cleanup=self.undo)(self._create)
        self.delete = work.orchestration(name="delete", cleanup=self.give_up)(self._delete)
        self.abandon = work.orchestration(name="abandon", cleanup=self.give_up)(self._abandon)
        self.stop = work.orchestration(name="stop", cleanup=self.settle)(self._stop)
        self.start = work.orchestration(name="start", cleanup=self.settle)(self._start)
        self.restart = work.orchestration(name="restart", cleanup=self.settle)(self._restart)
        self.reset_password = work.orchestration(name="reset_password", cleanup=self.settle)(self._reset_password)
        self.set_parameters = work.orchestration(name="set_parameters", cleanup=self.settle)(self._set_parameters)
        self.mend = work.orchestration(name="mend", cleanup=self.settle)(self._mend)
        self.create_from = work.orchestration(name="create_from", cleanup=self.undo)(self._create_from)
        self.restore = work.orchestration(name="restore", cleanup=self.settle)(self._restore)
        self.resize = work.orchestration(name="resize", cleanup=self.settle)(self._resize)
        self.backups = BackupLifecycle(context)
        self.parts = (work, self.backups.work)

    async def _create(self, run: Run, task: Task) -> None:
        await run.call(self._activities.check, task)
        await run.call(self._activities.provision, task)
        await self._come_up(run, task)

    async def _create_from(self, run: Run, task: Restoration) -> None:
        """What is in it when it comes up is what a backup brought."""
        await run.call(self._activities.check, task)
        await run.call(self._activities.provision, task)
        await self._wait_for_state(run, task, "running")
        await self._wait_until_reachable(run, task)
        await run.call(self._activities.restore, task)
        await self._come_up(run, task)

    async def _undo(self, run: Run, task: Task) -> None:
        """What was made of an instance that could not be created goes again."""
        if await run.call(self._activities.read_state, task) != "creating":
            return
        failed = await run.call(self._activities.read_failure, task)
        try:
            await self._remove(run, task)
        except DurableError as error:
            both = Failure(failed.code, f"{failed.message} It could not be undone, so delete it: {error}")
            await run.call(self._activities.transition, Transition(task, "fail", failed=both))
        else:
            await run.call(self._activities.transition, Transition(task, "fail", gone=True, failed=failed))

    async def _delete(self, run: Run, task: Task) -> None:
        await self._activities.wait_for_predecessor(run, task)
        await self._remove(run, task)
        await run.call(self._activities.transition, Transition(task, "vanish", gone=True))

    async def _abandon(self, run: Run, task: Task) -> None:
        """Its driver is not asked: it cannot be reached, and somebody said that this is to be the end of it."""
        await run.call(self._activities.leave_behind, task)
        await run.call(self._activities.transition, Transition(task, "vanish", gone=True))

    async def _give_up(self, run: Run, task: Task) -> None:
        """What could not be removed keeps its names, and can be deleted again."""
        if await run.call(self._activities.read_state, task) == "deleting":
            failed = await run.call(self._activities.read_failure, task)
            await run.call(self._activities.transition, Transition(task, "fail", failed=failed))

    async def _stop(self, run: Run, task: Task) -> None:
        await self._go_down(run, task)
        await run.call(self._activities.transition, Transition(task, "go_down"))

    async def _start(self, run: Run, task: Task) -> None:
        await run.call(self._activities.start, task)
        await self._come_up(run, task)

    async def _restart(self, run: Run, task: Task) -> None:
        await self._go_down(run, task)
        await self._start(run, task)

    async def _reset_password(self, run: Run, task: Task) -> None:
        await run.call(self._activities.reset_password, task)
        await self._wait_until_reachable(run, task)
        await run.call(self._activities.transition, Transition(task, None))

    async def _set_parameters(self, run: Run, task: SetParameters) -> None:
        """What takes effect only with a restart is restarted; of one that is stopped it counts from its start on."""
        if await run.call(self._activities.set_parameters, task) == "reloaded":
            await run.call(self._activities.transition, Transition(task, None))
        elif await run.call(self._activities.read_state, task) == "stopped":
            await self._go_down(run, task)  # something tries to bring it up with what was before
            await run.call(self._activities.transition, Transition(task, None))
        else:
            await run.call(self._activities.transition, Transition(task, "restart", ends=False))
            await self._restart(run, task)

    async def _mend(self, run: Run, task: Task) -> None:
        """It is brought to be as its record says, whatever is wrong with it. What is gone stays gone, and is told."""
        state = await run.call(self._activities.read_state, task)
        seen = await run.call(self._activities.observe, task)
        if seen.state == "absent":
            await run.call(self._activities.transition, Transition(task, "fail", failed=VANISHED))
        elif state == "running" and seen.state in ("stopped", "broken"):
            await run.call(self._activities.transition, Transition(task, "restart", ends=False))
            await self._restart(run, task)
        else:
            if state == "stopped":
                await self._go_down(run, task)
            await run.call(self._activities.publish, task)
            await run.call(self._activities.transition, Transition(task, None))

    async def _restore(self, run: Run, task: Restoration) -> None:
        await run.call(self._activities.restore, task)
        await run.call(self._activities.transition, Transition(task, None))

    async def _resize(self, run: Run, task: Resize) -> None:
        await run.call(self._activities.resize, task)
        await run.call(self._activities.transition, Transition(task, None))

    async def _settle(self, run: Run, task: Task) -> None:
        """What was begun did not come to its end: the record says where the instance is, and why."""
        state = await run.call(self._activities.read_state, task)
        if state is None:
            return
        event: Event | None = None
        if state in ("starting", "stopping"):
            seen = await self._wait_until_settled(run, task)
            up: dict[Observed, Event] = {"running": "come_up", "starting": "come_up", "absent": "fail"}
            event = up.get(seen.state, "go_down")
        failed = await run.call(self._activities.read_failure, task)
        await run.call(self._activities.transition, Transition(task, event, failed=failed))

    async def _wait_until_settled(self, run: Run, task: Task) -> ObservedState:
        """Where it is. What is on its way, up or down, is waited for, but not for ever: all others are kept out."""

        def is_settled(seen: ObservedState, waited: float) -> bool:
            return seen.state != "starting" or waited >= min(seen.timeout, _MIDWAY)

        try:
            return await wait_until(run, lambda: run.call(self._activities.observe, task), is_settled)
        except ActivityFailed:
            await run.sleep(_LOOK_AGAIN)
            await run.continue_as_new(task)

    async def _come_up(self, run: Run, task: Task) -> None:
        await self._wait_for_state(run, task, "running")
        await self._wait_until_reachable(run, task)
        await run.call(self._activities.publish, task)
        await run.call(self._activities.transition, Transition(task, "come_up"))

    async def _wait_until_reachable(self, run: Run, task: Task) -> None:
        """Until it answers: the way to one that runs, through a load balancer and its name, may take minutes."""
        seconds = 0.0

        def has_answered(result: ProbeResult, waited: float) -> bool:
            nonlocal seconds
            seconds += result.seconds
            if result.error and waited + seconds >= result.timeout:
                raise DoNotRetry(
                    f"The instance runs, and does not answer after {waited + seconds:.0f} s. {result.error}",
                    code=result.code,
                )
            return not result.error

        await wait_until(run, lambda: run.call(self._activities.probe, task), has_answered)

    async def _go_down(self, run: Run, task: Task) -> None:
        await run.call(self._activities.stop, task)
        await self._wait_for_state(run, task, "stopped", "broken")

    async def _remove(self, run: Run, task: Task) -> None:
        await run.call(self._activities.withdraw, task)
        await run.call(self._activities.remove, task)
        await self._wait_for_state(run, task, "absent")

    async def _wait_for_state(self, run: Run, task: Task, *wanted: Observed) -> None:
        doubts = 0

        async def observe() -> ObservedState:
            seen = await run.call(self._activities.observe, task)
            if "absent" in wanted and seen.state in ("running", "broken"):
                await run.call(self._activities.remove, task)  # a step that came late has put it back
            return seen

        def is_seen(seen: ObservedState, waited: float) -> bool:
            nonlocal doubts
            if seen.state in wanted:
                return True
            doubts = doubts + 1 if "running" in wanted and seen.state != "starting" else 0
            if doubts >= _DOUBTS or waited >= seen.timeout:
                raise DoNotRetry(
                    f"The instance is {seen.state} and not {wanted[0]}, after {waited:.0f} s. {seen.detail}".strip(),
                    code=f"not_{wanted[0]}",
                )
            return False

        await wait_until(run, observe, is_seen)
