"""What a driver has and no record wants is removed, and seen to be gone.

Ids are never used again: what a record says is gone, or what no record knows, is never wanted later. So nothing has to
be held while it goes, and whoever removes it too, as another `delete` of the record does, does the same.
"""

from dataclasses import replace

from interlock.aggregate.wait import wait_until
from interlock.durable.attempt import Attempt
from interlock.durable.declared import Orchestrations
from interlock.durable.run import Run
from interlock.errors import BadSpec, ConfigurationError, DoNotRetry, ForeignResource, InstanceUnknown
from interlock.instances.context import InstanceContext
from interlock.instances.records import InstanceRecords
from interlock.instances.tasks import Orphan, WaitForState
from interlock.instances.upkeep.comparison import is_to_be_gone

_FINAL = (BadSpec, ConfigurationError, ForeignResource)
_TIMEOUT = 300.0


class Orphans:
    def __init__(self, work: Orchestrations, context: InstanceContext) -> None:
        self._context = context
        self._records = InstanceRecords(context.schema)
        patient = replace(context.pace.retry, never=_FINAL)
        self.take = work.activity(name="take_orphan", retry=patient, timeout=_TIMEOUT)(self._take)
        self.look = work.activity(name="look_at_orphan", retry=patient, timeout=_TIMEOUT)(self._look)
        self.remove = work.orchestration(name="remove_orphan")(self._remove)

    async def _remove(self, run: Run, orphan: Orphan) -> None:
        await run.call(self.take, orphan)

        def is_absent(seen: WaitForState, waited: float) -> bool:
            if seen.state != "absent" and waited >= seen.patience:
                raise DoNotRetry(
                    f"{orphan.instance} is still {seen.state} after {waited:.0f} s. {seen.detail}".strip(),
                    code="not_absent",
                )
            return seen.state == "absent"

        await wait_until(run, lambda: run.call(self.look, orphan), is_absent)

    async def _take(self, attempt: Attempt, orphan: Orphan) -> None:
        async with self._context.transactions.transaction() as connection:
            await attempt.fence(connection)
            try:
                instance = await self._records.lock(connection, orphan.instance)
            except InstanceUnknown:
                instance = None
            if not is_to_be_gone(instance):
                raise DoNotRetry(
                    f"{orphan.instance} is an instance that has a record: delete that.", code="not_orphaned"
                )
            if instance is not None:
                await self._records.events.note(connection, instance.id, "orphan told to go", attempt.at)
        await self._context.driver(orphan.driver).remove(orphan.instance)

    async def _look(self, attempt: Attempt, orphan: Orphan) -> WaitForState:
        sight = await self._context.driver(orphan.driver).look(orphan.instance)
        return WaitForState(sight.state, sight.detail, self._context.pace.patience)
