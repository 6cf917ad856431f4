"""Health checks of running instances.

Each instance has one watcher, which runs until the record names another watcher, or none.

Permissions: the record names the watcher. An orchestration that starts an instance records a new watcher, in the
transaction that records the state `running`. An orchestration that stops or deletes the instance clears the watcher. A
check counts only if the record still names its watcher when the check is written. So a late watcher changes nothing,
and two watchers check one instance for no longer than one pause.
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
        started = time.monotonic()
        error_text = await self._check_error(instance)
        milliseconds = (time.monotonic() - started) * 1000
        failures = watch.failures + 1 if error_text else 0
        async with self._context.transactions.transaction() as connection:
            await attempt.fence(connection)
            now = await self._records.lock(connection, watch.instance)
            if not _is_watched(now, watch):
                return WatchResult(True, 0, 0)
            facts = (instance.id, attempt.at, not error_text, milliseconds, error_text)
            await self._records.fetch(connection, "note_check", *facts)
            health: Health | None = _health(failures, timing.unhealthy_after)
            if health and health != now.health:
                await self._records.change(connection, instance.id, attempt.at, health=health)
                await self._records.events.note(connection, instance.id, health, attempt.at, error_text)
        return WatchResult(False, failures, timing.check_every)

    async def _check_error(self, instance: InstanceRecord) -> str:
        """Returns the error of a check; empty if the instance answers."""
        endpoint: Endpoint | None = instance.endpoint
        if endpoint is None:
            return "The address of the instance is not known."
        try:
            await reach(
                self._context.driver(instance.driver), instance.id, endpoint, self._context.timing.check_timeout
            )
        except (InterlockError, OSError) as error:
            return str(error)
        return ""


def _health(failures: int, threshold: int) -> Health | None:
    """Returns the health after `failures` consecutive failures; None if there are too few of them to decide."""
    if failures == 0:
        return "healthy"
    return "unhealthy" if failures >= threshold else None


def _is_watched(instance: InstanceRecord, watch: WatchHealth) -> bool:
    return instance.state == "running" and instance.watcher == watch.watcher
