"""Removal of orphans: instances that a driver has and no record wants. They are removed and observed to be gone.

Ids are never reused: an instance without a record, or with a record that says it is gone, is never wanted later. So no
lock is held during the removal, and a concurrent removal, such as another `delete` of the record, has the same effect.
"""

from dataclasses import replace

from interlock.aggregate.wait import wait_until
from interlock.durable.attempt import Attempt
from interlock.durable.declarations import Orchestrations
from interlock.durable.run import Run
from interlock.errors import BadSpec, ConfigurationError, DoNotRetry, ForeignResource, InstanceUnknown
from interlock.instances.context import InstanceContext
from interlock.instances.records import InstanceRecords
from interlock.instances.tasks import ObservedState, Orphan
from interlock.instances.upkeep.comparison import is_unwanted

_FINAL = (BadSpec, ConfigurationError, ForeignResource)
_TIMEOUT = 300.0


class Orphans:
    def __init__(self, work: Orchestrations, context: InstanceContext) -> None:
        self._context = context
        self._records = InstanceRecords(context.schema)
        patient = replace(context.timing.retry, never=_FINAL)
        self.delete = work.activity(name="delete_orphan", retry=patient, timeout=_TIMEOUT)(self._delete)
        self.observe = work.activity(name="observe_orphan", retry=patient, timeout=_TIMEOUT)(self._observe)
        self.remove = work.orchestration(name="remove_orphan")(self._remove)

    async def _remove(self, run: Run, orphan: Orphan) -> None:
        await run.call(self.delete, orphan)

        def is_absent(observed: ObservedState, waited: float) -> bool:
            if observed.state != "absent" and waited >= observed.timeout:
                raise DoNotRetry(
                    f"The orphan {orphan.instance} is still {observed.state} after {waited:.0f} s. "
                    f"{observed.detail}".strip(),
                    code="not_absent",
                )
            return observed.state == "absent"

        await wait_until(run, lambda: run.call(self.observe, orphan), is_absent)

    async def _delete(self, attempt: Attempt, orphan: Orphan) -> None:
        async with self._context.transactions.transaction() as connection:
            await attempt.fence(connection)
            try:
                instance = await self._records.lock(connection, orphan.instance)
            except InstanceUnknown:
                instance = None
            if not is_unwanted(instance):
                raise DoNotRetry(
                    f"{orphan.instance} has a record, so it is not an orphan: delete the instance instead.",
                    code="not_orphaned",
                )
            if instance is not None:
                await self._records.events.note(connection, instance.id, "removing orphan", attempt.at)
        await self._context.driver(orphan.driver).remove(orphan.instance)

    async def _observe(self, attempt: Attempt, orphan: Orphan) -> ObservedState:
        observation = await self._context.driver(orphan.driver).observe(orphan.instance)
        return ObservedState(observation.state, observation.detail, self._context.timing.timeout)
