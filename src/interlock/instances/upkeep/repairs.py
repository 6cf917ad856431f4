"""Repairs of drift, on request or by the setting `drift_repair`.

Permissions: a repair is an orchestration. `mend` works on an instance like any other orchestration, alone and named in
the record; `remove_orphan` removes an orphan. The repair is recorded in one transaction with its finding, which is
locked, so there is one repair at a time. It observes the state again, and does only the work that is still needed. The
next check closes the finding.

Two kinds of drift are repaired only when an operator names the finding. An instance without a record may belong to
another control plane, or to this one, if its database was restored from an older backup. And a vanished instance cannot
be recovered once it is given up, although an unmounted disk or a wrongly named cluster may come back.

A repair that fails is repeated, each time after twice the delay; untried findings come first.
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
from interlock.instances.upkeep.findings import Finding, Findings
from interlock.logs import events

log = events(__name__)

_NOT_NOW = (DriftUnknown, IllegalTransition, InstanceBusy, InstanceUnknown)
_AT_ONCE = 20
"""Limits the load when all instances of a restarted machine are repaired."""


class Repairs:
    def __init__(self, lifecycle: InstanceLifecycle) -> None:
        self._lifecycle = lifecycle
        self._context = lifecycle.context
        self._instances = Instances(lifecycle)
        self.findings = Findings(lifecycle.context.schema)

    async def repair(self, connection: Any, id: int, *, by: str = INTERLOCK) -> Finding:
        """Start the repair of a finding in the caller's transaction. While its repair is running, this changes nothing.

        Raises `DriftUnknown` if the finding is not open, and `InstanceBusy` while another orchestration works on the
        instance.
        """
        finding = await self.findings.lock(connection, id)
        if finding.repair is None or not await is_unfinished(connection, self._context.schema, finding.repair):
            await self.findings.fetch(connection, "note_repair", id, await self._begin(connection, finding, by))
        return await self.findings.lock(connection, id)

    async def repair_all(self, grant: AsyncGrant) -> None:
        """Start repairs that need no operator, a limited number at a time."""
        async with self._context.transactions.transaction() as connection:
            found = await self.findings.repairable(connection, list(self._context.drivers))
        started = 0
        for finding in found:
            if started < _AT_ONCE and await self._try_repair(grant, finding):
                started += 1

    async def _try_repair(self, grant: AsyncGrant, finding: Finding) -> bool:
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

    async def _begin(self, connection: Any, finding: Finding, by: str) -> str:
        if finding.kind != "orphan":
            return (await self._instances.mend(connection, finding.instance, by=by)).orchestration
        orphan = Orphan(finding.driver, finding.instance)
        orchestration = f"orphan-{finding.instance}-remove-{uuid.uuid4().hex[:8]}"
        await requests.record(connection, self._context.schema, self._lifecycle.orphans.remove, orchestration, orphan)
        return orchestration
