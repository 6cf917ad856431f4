"""The order of steps in which instances are created, changed and deleted.

One orchestration at a time works on an instance: the one that the record names. Its last step writes the requested
state and ends the work. If it fails or is cancelled, its clean-up writes the observed state and the error. If the
record names another orchestration by then, which only `delete` does, the clean-up changes nothing.

A creation that fails is undone: everything that was created is removed and observed to be gone. Then one transaction
frees the names and writes the state `failed`. A deletion ends in the same way, with the state `deleted`. If something
cannot be removed, the names stay claimed, because the instance may still exist under them. Only an operator who
abandons the instance frees them then.
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

_MOST_DOWN = 7
"""The number of consecutive observations of an instance that is down after which its start counts as failed."""
_OBSERVE_AGAIN = 30.0
_SETTLE_TIMEOUT = 180.0
"""Seconds to wait for an instance that is starting or stopping after its orchestration has failed."""


class InstanceLifecycle:
    """The orchestrations of instances. A replica runs them with ``AsyncDurable(*lifecycle.parts)``."""

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
        """Create an instance. The contents of a backup are restored before the instance counts as running."""
        await run.call(self._activities.check, task)
        await run.call(self._activities.provision, task)
        await self._wait_for_state(run, task, "running")
        await self._wait_until_reachable(run, task)
        await run.call(self._activities.restore, task)
        await self._come_up(run, task)

    async def _undo(self, run: Run, task: Task) -> None:
        """Remove everything of an instance that could not be created."""
        if await run.call(self._activities.read_state, task) != "creating":
            return
        failure = await run.call(self._activities.read_failure, task)
        try:
            await self._remove(run, task)
        except DurableError as error:
            both = Failure(
                failure.code, f"{failure.message} The creation could not be undone, so delete the instance: {error}"
            )
            await run.call(self._activities.transition, Transition(task, "fail", failure=both))
        else:
            await run.call(self._activities.transition, Transition(task, "fail", gone=True, failure=failure))

    async def _delete(self, run: Run, task: Task) -> None:
        await self._activities.wait_for_predecessor(run, task)
        await self._remove(run, task)
        await run.call(self._activities.transition, Transition(task, "vanish", gone=True))

    async def _abandon(self, run: Run, task: Task) -> None:
        """Give up an instance without a call of its driver, because an operator has found the driver unreachable for
        good.
        """
        await run.call(self._activities.leave_behind, task)
        await run.call(self._activities.transition, Transition(task, "vanish", gone=True))

    async def _give_up(self, run: Run, task: Task) -> None:
        """Mark an instance that could not be removed as failed. It keeps its names, and can be deleted again."""
        if await run.call(self._activities.read_state, task) == "deleting":
            failure = await run.call(self._activities.read_failure, task)
            await run.call(self._activities.transition, Transition(task, "fail", failure=failure))

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
        """Set the parameters, and restart a running instance if a parameter needs it.

        A stopped instance gets the parameters at its next start.
        """
        if await run.call(self._activities.set_parameters, task) == "reloaded":
            await run.call(self._activities.transition, Transition(task, None))
        elif await run.call(self._activities.read_state, task) == "stopped":
            await self._go_down(run, task)  # another process is starting it with the previous parameters
            await run.call(self._activities.transition, Transition(task, None))
        else:
            await run.call(self._activities.transition, Transition(task, "restart", ends=False))
            await self._restart(run, task)

    async def _mend(self, run: Run, task: Task) -> None:
        """Bring the instance into the state of its record. If the instance is gone, its state becomes `failed`."""
        state = await run.call(self._activities.read_state, task)
        observed = await run.call(self._activities.observe, task)
        if observed.state == "absent":
            await run.call(self._activities.transition, Transition(task, "fail", failure=VANISHED))
        elif state == "running" and observed.state in ("stopped", "broken"):
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
        """Write the observed state and the error after an orchestration that did not complete."""
        state = await run.call(self._activities.read_state, task)
        if state is None:
            return
        event: Event | None = None
        if state in ("starting", "stopping"):
            observed = await self._wait_until_settled(run, task)
            up: dict[Observed, Event] = {"running": "come_up", "starting": "come_up", "absent": "fail"}
            event = up.get(observed.state, "go_down")
        failure = await run.call(self._activities.read_failure, task)
        await run.call(self._activities.transition, Transition(task, event, failure=failure))

    async def _wait_until_settled(self, run: Run, task: Task) -> ObservedState:
        """Wait until the instance is neither starting nor stopping. The time is limited, as no other work can start."""

        def is_settled(observed: ObservedState, waited: float) -> bool:
            return observed.state != "starting" or waited >= min(observed.timeout, _SETTLE_TIMEOUT)

        try:
            return await wait_until(run, lambda: run.call(self._activities.observe, task), is_settled)
        except ActivityFailed:
            await run.sleep(_OBSERVE_AGAIN)
            await run.continue_as_new(task)

    async def _come_up(self, run: Run, task: Task) -> None:
        await self._wait_for_state(run, task, "running")
        await self._wait_until_reachable(run, task)
        await run.call(self._activities.publish, task)
        await run.call(self._activities.transition, Transition(task, "come_up"))

    async def _wait_until_reachable(self, run: Run, task: Task) -> None:
        """Wait until the instance answers. The route through a load balancer and its DNS name may take minutes."""
        seconds = 0.0

        def has_answered(result: ProbeResult, waited: float) -> bool:
            nonlocal seconds
            seconds += result.seconds
            if result.error and waited + seconds >= result.timeout:
                raise DoNotRetry(
                    f"The instance runs, but has not answered after {waited + seconds:.0f} s. {result.error}",
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
        times_down = 0

        async def observe() -> ObservedState:
            observed = await run.call(self._activities.observe, task)
            if "absent" in wanted and observed.state in ("running", "broken"):
                await run.call(self._activities.remove, task)  # a late step has recreated it
            return observed

        def is_reached(observed: ObservedState, waited: float) -> bool:
            nonlocal times_down
            if observed.state in wanted:
                return True
            times_down = times_down + 1 if "running" in wanted and observed.state != "starting" else 0
            if times_down >= _MOST_DOWN or waited >= observed.timeout:
                raise DoNotRetry(
                    f"The instance is {observed.state} and not {wanted[0]}, after {waited:.0f} s. "
                    f"{observed.detail}".strip(),
                    code=f"not_{wanted[0]}",
                )
            return False

        await wait_until(run, observe, is_reached)
