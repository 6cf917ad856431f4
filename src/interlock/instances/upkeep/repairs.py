"""What has drifted is put right, where somebody tells us to.

Who may do what. A repair is an orchestration: `mend`, which works on the instance as every other does, alone and named
in the record; or, of an orphan, `remove_orphan`. It is recorded in one transaction with the finding, which is locked,
so there is one at a time. Both look for themselves how things are, and do what is still needed. The next look closes
the finding.

By itself, nothing is removed that no record knows: it may be another control plane's, or this one's, if its database
was restored from an older backup. Nor is given up what vanished: nothing leads back from that, and a disk that was not
mounted, or a cluster that was named wrongly, comes back. A person who names the finding may have either done.

What could not be put right is tried again and again, each time after twice as long; and others come first.
"""

import uuid
from typing import Any

from interlock.aggregate.events import INTERLOCK
from interlock.coordination.lease.grant import AsyncGrant
from interlock.durable import requests
from interlock.durable.status import is_unfinished
from interlock.errors import DriftUnknown, IllegalTransition, InstanceBusy, InstanceUnknown
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.requests import Instances
from interlock.instances.tasks import Orphan
from interlock.instances.upkeep.findings import DriftFinding, Findings
from interlock.logs import events

log = events(__name__)

_NOT_NOW = (DriftUnknown, IllegalTransition, InstanceBusy, InstanceUnknown)
_AT_ONCE = 20
"""A whole machine that was restarted is not brought up in one moment."""


class Repairs:
    def __init__(self, lifecycle: InstanceLifecycle) -> None:
        self._lifecycle = lifecycle
        self._context = lifecycle.context
        self._instances = Instances(lifecycle)
        self.findings = Findings(lifecycle.context.schema)

    async def repair(self, connection: Any, id: int, *, by: str = INTERLOCK) -> DriftFinding:
        """Have it put right, in the caller's transaction. While that is under way, it changes nothing.

        Raises `DriftUnknown`, or, while something else works on the instance, `InstanceBusy`.
        """
        finding = await self.findings.lock(connection, id)
        if finding.repair is None or not await is_unfinished(connection, self._context.schema, finding.repair):
            await self.findings.fetch(connection, "note_repair", id, await self._begin(connection, finding, by))
        return await self.findings.lock(connection, id)

    async def repair_all(self, grant: AsyncGrant) -> None:
        """What may be put right without asking anybody, some of it at a time."""
        async with self._context.transactions.transaction() as connection:
            found = await self.findings.repairable(connection, list(self._context.drivers))
        begun = 0
        for finding in found:
            if begun < _AT_ONCE and await self._try_repair(grant, finding):
                begun += 1

    async def _try_repair(self, grant: AsyncGrant, finding: DriftFinding) -> bool:
        try:
            async with self._context.transactions.transaction() as connection:
                await grant.guard(connection)
                if finding.kind == "orphan":
                    await self._instances.records.read(connection, finding.instance)
                repair = (await self.repair(connection, finding.id)).repair
        except _NOT_NOW as error:
            log.info("drift.not_repaired", extra={"instance": finding.instance, "why": str(error)})
            return False
        if repair == finding.repair:
            return False
        facts = {"instance": finding.instance, "kind": finding.kind, "orchestration": repair}
        log.warning("drift.repairing", extra=facts)
        return True

    async def _begin(self, connection: Any, finding: DriftFinding, by: str) -> str:
        if finding.kind != "orphan":
            return (await self._instances.mend(connection, finding.instance, by=by)).orchestration
        orphan = Orphan(finding.driver, finding.instance)
        orchestration = f"orphan-{finding.instance}-remove-{uuid.uuid4().hex[:8]}"
        await requests.record(connection, self._context.schema, self._lifecycle.orphans.remove, orchestration, orphan)
        return orchestration
