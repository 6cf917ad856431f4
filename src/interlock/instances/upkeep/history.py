"""Pruning of old history, in batches. Each batch is a transaction of its own, so that its locks are short."""

from interlock.aggregate.events import prune_events
from interlock.instances.context import InstanceContext
from interlock.instances.records import InstanceRecords
from interlock.instances.upkeep.findings import Findings
from interlock.logs import events

log = events(__name__)

_BATCH = 5000


class History:
    """Prunes old history.

    `events_kept` (also for closed findings of drift) and `checks_kept` are durations in seconds.
    """

    def __init__(self, context: InstanceContext, *, events_kept: float, checks_kept: float) -> None:
        self._context = context
        self._events_kept = events_kept
        self._checks_kept = checks_kept
        self._records = InstanceRecords(context.schema)
        self._findings = Findings(context.schema)

    async def prune(self, batch: int = _BATCH) -> int:
        """Delete old history, and return the number of deleted rows."""
        forgotten = 0
        while gone := await self._forget(batch):
            forgotten += gone
        if forgotten:
            log.info("history.pruned", extra={"rows": forgotten})
        return forgotten

    async def _forget(self, batch: int) -> int:
        async with self._context.transactions.transaction() as connection:
            gone = await prune_events(connection, self._context.schema, self._events_kept, batch)
            gone += await self._records.prune_checks(connection, self._checks_kept, batch)
            return gone + len(await self._findings.fetch(connection, "prune", self._events_kept, batch))
