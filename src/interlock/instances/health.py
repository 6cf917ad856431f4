"""Whether running instances answer: one watcher for each, which goes on until the record names another, or none.

Who may do what. The record names the watcher. Whoever brings an instance up names a new one, in the transaction that
says so; whoever takes it down, or deletes it, names none. A check counts only if its watcher is still named when it is
written. So one that is late changes nothing, and two never watch one instance for longer than a pause.
"""

import time
from dataclasses import replace

from interlock.durable.attempt import Attempt
from interlock.durable.declarations import FOREVER, Orchestrations
from interlock.durable.run import Run
from interlock.errors import InterlockError
from interlock.instances.client import reach
from interlock.instances.context import InstanceContext
from interlock.instances.drivers.port import Endpoint
from interlock.instances.model import Health
from interlock.instances.records import InstanceRecord, InstanceRecords
from interlock.instances.tasks import WatchHealth, WatchResult


class HealthWatch:
    def __init__(self, work: Orchestrations, context: InstanceContext) -> None:
        self._context = context
        self._records = InstanceRecords(context.schema)
        self.check = work.activity(name="check_health", retry=FOREVER, timeout=120)(self._check)
        self.watch = work.orchestration(name="watch_health")(self._watch)

    async def _watch(self, run: Run, watch: WatchHealth) -> None:
        watched = await run.call(self.check, watch)
        if not watched.ended:
            await run.sleep(watched.pause)
            await run.continue_as_new(replace(watch, failures=watched.failures))

    async def _check(self, attempt: Attempt, watch: WatchHealth) -> WatchResult:
        timing = self._context.timing
        async with self._context.transactions.transaction() as connection:
            instance = await self._records.read(connection, watch.instance)
        if not _is_watched(instance, watch):
            return WatchResult(True, 0, 0)
        begun = time.monotonic()
        trouble = await self._trouble(instance)
        milliseconds = (time.monotonic() - begun) * 1000
        failures = watch.failures + 1 if trouble else 0
        async with self._context.transactions.transaction() as connection:
            await attempt.fence(connection)
            now = await self._records.lock(connection, watch.instance)
            if not _is_watched(now, watch):
                return WatchResult(True, 0, 0)
            facts = (instance.id, attempt.at, not trouble, milliseconds, trouble)
            await self._records.fetch(connection, "note_check", *facts)
            health: Health | None = _judged(failures, timing.unhealthy_after)
            if health and health != now.health:
                await self._records.change(connection, instance.id, attempt.at, health=health)
                await self._records.events.note(connection, instance.id, health, attempt.at, trouble)
        return WatchResult(False, failures, timing.check_every)

    async def _trouble(self, instance: InstanceRecord) -> str:
        """Empty if it answers."""
        endpoint: Endpoint | None = instance.endpoint
        if endpoint is None:
            return "It is not known where it listens."
        try:
            await reach(
                self._context.driver(instance.driver), instance.id, endpoint, self._context.timing.check_timeout
            )
        except (InterlockError, OSError) as error:
            return str(error)
        return ""


def _judged(failures: int, threshold: int) -> Health | None:
    """None: too early to tell."""
    if failures == 0:
        return "healthy"
    return "unhealthy" if failures >= threshold else None


def _is_watched(instance: InstanceRecord, watch: WatchHealth) -> bool:
    return instance.state == "running" and instance.watcher == watch.watcher
