"""Replacement of health watchers that have ended although their instance runs.

Permissions: the record names the watcher. One statement replaces it, only if the record still names the watcher that
was found to have ended, and the new watcher is recorded in the same transaction. So one of several concurrent
replacements succeeds. Two watchers never check one instance, because a watcher that the record does not name ends by
itself. A crash leaves the whole replacement, or nothing.
"""

import uuid

from interlock.durable.requests import record
from interlock.instances.context import InstanceContext
from interlock.instances.health import HealthWatch
from interlock.instances.records import InstanceRecords
from interlock.instances.tasks import WatchHealth
from interlock.instances.upkeep.findings import Findings
from interlock.logs import events

log = events(__name__)

_BATCH = 500


class Watchers:
    def __init__(self, context: InstanceContext, health: HealthWatch) -> None:
        self._context = context
        self._health = health
        self._records = InstanceRecords(context.schema)
        self._findings = Findings(context.schema)

    async def restore(self) -> int:
        """Replace watchers that have ended. Returns the number of replaced watchers."""
        async with self._context.transactions.transaction() as connection:
            missing = await self._findings.fetch(connection, "unwatched", _BATCH)
        return sum([await self._replace_watcher(*one) for one in missing])

    async def _replace_watcher(self, id: str, before: str | None) -> bool:
        watcher = f"instance-{id}-watch-{uuid.uuid4().hex[:8]}:health"
        async with self._context.transactions.transaction() as connection:
            rows = await self._findings.fetch(connection, "rewatch", id, before, watcher)
            if not rows:
                return False
            await record(connection, self._context.schema, self._health.watch, watcher, WatchHealth(id, watcher))
            await self._records.events.note(connection, id, "watched again", rows[0][0])
        log.warning("instance.watched_again", extra={"instance": id, "before": before})
        return True
