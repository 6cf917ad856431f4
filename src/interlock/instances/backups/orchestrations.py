"""The order of steps in which backups are made, checked and removed.

One orchestration at a time works on a backup: the one that its record names. None of them works on the instance: that
may be stopped, changed or deleted meanwhile, and then the backup fails. After each one that was made, old ones go.
"""

from interlock.durable.attempt import Attempt
from interlock.durable.declared import Activity, Orchestrations
from interlock.durable.run import Run
from interlock.errors import BackupDamaged, DurableError
from interlock.instances.backups.activities import BackupActivities, BackupMove
from interlock.instances.backups.model import Event
from interlock.instances.backups.pruning import Pruning
from interlock.instances.health import FOREVER
from interlock.instances.surroundings import Surroundings
from interlock.instances.tasks import Failed, Task

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


class BackupWork:
    """`failure` and `is_ended` are the activities of instances."""

    def __init__(
        self, work: Orchestrations, here: Surroundings, failure: Activity[Task, Failed], is_ended: Activity[Task, bool]
    ) -> None:
        self._here = here
        self._do = BackupActivities(work, here)
        self._failure = failure
        self._is_ended = is_ended
        self.discard_backup = work.orchestration(name="discard_backup")(self._discard_backup)
        self.leave_backup = work.orchestration(name="leave_backup")(self._leave_backup)
        self.give_up_backup = work.orchestration(name="give_up_backup")(self._give_up_backup)
        self.delete_backup = work.orchestration(name="delete_backup", cleanup=self.give_up_backup)(self._delete_backup)
        self.verify_backup = work.orchestration(name="verify_backup", cleanup=self.leave_backup)(self._verify_backup)
        self.pruning = Pruning(here, self.delete_backup)
        self.retain = work.activity(name="retain", retry=FOREVER, timeout=300)(self._retain)
        self.back_up = work.orchestration(name="back_up", cleanup=self.discard_backup)(self._back_up)

    async def _back_up(self, run: Run, task: Task) -> None:
        await self._wait_for_turn(run, task)
        await run.call(self._do.dump, task)
        await run.call(self.retain, task)

    async def _discard_backup(self, run: Run, task: Task) -> None:
        """What was written of one that could not be made goes again. What cannot be removed now, `sweep` removes."""
        if await run.call(self._do.backup_standing, task) != "making":
            return
        failed = await run.call(self._failure, task)
        try:
            await run.call(self._do.clear_away, task)
        except DurableError as error:
            failed = Failed(failed.code, f"{failed.message} What was written of it could not be removed yet: {error}")
        await run.call(self._do.move_backup, BackupMove(task, "fail", failed))

    async def _verify_backup(self, run: Run, task: Task) -> None:
        await self._wait_for_turn(run, task)
        await run.call(self._do.read_back, task)

    async def _leave_backup(self, run: Run, task: Task) -> None:
        """One that is damaged is of no use. Of one that could not be looked at, nothing is known but that."""
        if await run.call(self._do.backup_standing, task) == "made":
            failed = await run.call(self._failure, task)
            event: Event | None = "fail" if failed.code == BackupDamaged.code else None
            await run.call(self._do.move_backup, BackupMove(task, event, failed))

    async def _delete_backup(self, run: Run, task: Task) -> None:
        pause = _FIRST_PAUSE
        while task.after is not None and not await run.call(self._is_ended, task):
            await run.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        await run.call(self._do.clear_away, task)
        await run.call(self._do.move_backup, BackupMove(task, "vanish"))

    async def _give_up_backup(self, run: Run, task: Task) -> None:
        """What could not be removed can be deleted again."""
        if await run.call(self._do.backup_standing, task) == "deleting":
            failed = await run.call(self._failure, task)
            await run.call(self._do.move_backup, BackupMove(task, "fail", failed))

    async def _wait_for_turn(self, run: Run, task: Task) -> None:
        pause = _FIRST_PAUSE
        while not await run.call(self._do.take_turn, task):
            await run.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _retain(self, attempt: Attempt, task: Task) -> None:
        """Those of the instance that are not to be kept any more, now that there is a newer one."""
        async with self._here.database.transaction() as connection:
            await attempt.fence(connection)
            await self.pruning.prune(connection, task.instance)
