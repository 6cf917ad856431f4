"""The order of steps in which backups are made, checked and removed.

One orchestration at a time works on a backup: the one that the record names. None of them works on the instance, which
may be stopped, changed or deleted in the meantime; in that case the backup fails. After each new backup, old ones are
removed.
"""

from dataclasses import replace

from interlock.aggregate.record import Task, Transition
from interlock.aggregate.wait import wait_until
from interlock.durable.attempt import Attempt
from interlock.durable.declarations import FOREVER, Orchestrations
from interlock.durable.run import Run
from interlock.errors import BackupDamaged, DurableError
from interlock.instances.backups.activities import BackupActivities
from interlock.instances.backups.model import Event
from interlock.instances.backups.removal import BackupRemoval
from interlock.instances.context import InstanceContext

_LONGEST_PAUSE = 30.0


class BackupLifecycle:
    """The orchestrations of backups. A replica runs those that `work` declares."""

    def __init__(self, context: InstanceContext) -> None:
        self.work = work = Orchestrations("backups")
        self._context = context
        self._activities = BackupActivities(work, context)
        self.discard = work.orchestration(name="discard")(self._discard)
        self.leave = work.orchestration(name="leave")(self._leave)
        self.give_up = work.orchestration(name="give_up")(self._give_up)
        self.delete = work.orchestration(name="delete", cleanup=self.give_up)(self._delete)
        self.verify = work.orchestration(name="verify", cleanup=self.leave)(self._verify)
        self.pruning = BackupRemoval(context, self.delete)
        self.retain = self._activities.activity(self._retain, FOREVER)
        self.make = work.orchestration(name="make", cleanup=self.discard)(self._make)

    async def _make(self, run: Run, task: Task) -> None:
        await self._wait_for_slot(run, task)
        await run.call(self._activities.dump, task)
        await run.call(self.retain, task)

    async def _discard(self, run: Run, task: Task) -> None:
        """Remove the files of a backup that could not be made. If that fails, `sweep` removes them later."""
        if await run.call(self._activities.read_state, task) != "making":
            return
        failure = await run.call(self._activities.read_failure, task)
        try:
            await run.call(self._activities.clear_away, task)
        except DurableError as error:
            message = f"{failure.message} The files of the backup could not be removed yet: {error}"
            failure = replace(failure, message=message)
        await run.call(self._activities.transition, Transition(task, "fail", failure=failure))

    async def _verify(self, run: Run, task: Task) -> None:
        await self._wait_for_slot(run, task)
        await run.call(self._activities.read_back, task)

    async def _leave(self, run: Run, task: Task) -> None:
        """Mark a damaged backup as failed. If the check itself was not possible, the backup keeps its state."""
        if await run.call(self._activities.read_state, task) == "made":
            failure = await run.call(self._activities.read_failure, task)
            event: Event | None = "fail" if failure.code == BackupDamaged.code else None
            await run.call(self._activities.transition, Transition(task, event, failure=failure))

    async def _delete(self, run: Run, task: Task) -> None:
        await self._activities.wait_for_predecessor(run, task)
        await run.call(self._activities.clear_away, task)
        await run.call(self._activities.transition, Transition(task, "vanish"))

    async def _give_up(self, run: Run, task: Task) -> None:
        """Mark a backup that could not be removed as failed, so that it can be deleted again."""
        if await run.call(self._activities.read_state, task) == "deleting":
            failure = await run.call(self._activities.read_failure, task)
            await run.call(self._activities.transition, Transition(task, "fail", failure=failure))

    async def _wait_for_slot(self, run: Run, task: Task) -> None:
        await wait_until(
            run,
            lambda: run.call(self._activities.acquire_slot, task),
            lambda has_slot, _: has_slot,
            longest_pause=_LONGEST_PAUSE,
        )

    async def _retain(self, attempt: Attempt, task: Task) -> None:
        """Start the removal of the instance's old backups, now that there is a newer one."""
        async with self._context.transactions.transaction() as connection:
            await attempt.fence(connection)
            made = await self.pruning.records.read(connection, task.record)
            await self.pruning.prune(connection, made.instance)
