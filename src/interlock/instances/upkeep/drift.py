"""The drift check: a comparison of the records with the state of drivers and name server.

Permissions: the holder of the lease runs the check. The transaction that writes findings carries the guard of the
grant, so they count only if the lease is still held. Only the check opens and closes findings.

Concurrency: instances are created, changed and deleted all the time. A record names the orchestration that works on it
(`working`) before the orchestration acts, and until it is done. So the check takes these steps, in this order:

1. List the driver's instances, then read the records. An instance that was created in between has a record already,
   because its record is committed first. An instance that was removed in between is observed again in step 2.
2. Observe each instance that no orchestration works on. If its record said before that it is gone, it is absent, unless
   something recreated it.
3. Observe an instance that seems to have drifted once more, after a pause: a server that is being restarted is up
   again.
4. Read the records again, in the transaction that writes the findings. Nothing is written about an instance whose
   record names another orchestration by then, or is being worked on. Ids of orchestrations are never reused, so a
   record that names the same one was not touched.

A state that cannot be observed is left as it is: a driver that does not answer neither opens nor closes a finding. An
error in one instance, or in one driver, does not stop the check of the others; it is recorded with the time of the
check. A crash leaves nothing behind: the next check starts anew.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from interlock.coordination.lease.grant import AsyncGrant
from interlock.errors import InterlockError
from interlock.instances.context import InstanceContext
from interlock.instances.drivers.port import Driver
from interlock.instances.records import InstanceRecord, InstanceRecords
from interlock.instances.upkeep.comparison import (
    Verdicts,
    confirmed,
    dns_verdicts,
    driver_verdicts,
    is_settled,
    is_untouched,
)
from interlock.instances.upkeep.findings import Finding, Findings
from interlock.logs import events

log = events(__name__)

_AT_ONCE = 8

Records = Mapping[str, InstanceRecord]


class DriftCheck:
    def __init__(self, context: InstanceContext, *, confirm_after: float = 5.0) -> None:
        self._context = context
        self._confirm_after = confirm_after
        self._records = InstanceRecords(context.schema)
        self._findings = Findings(context.schema)

    async def run(self, grant: AsyncGrant) -> None:
        """Check every driver, one after the other."""
        for name, driver in self._context.drivers.items():
            try:
                existing = await driver.ids()
            except Exception as error:
                log.warning("drift.not_observed", extra={"driver": name, "why": _error_text(error)})
                await self._note_failure(grant, name, _error_text(error))
            else:
                await self._compare(grant, name, driver, existing)

    async def _compare(self, grant: AsyncGrant, name: str, driver: Driver, existing: Mapping[str, str]) -> None:
        async with self._context.transactions.transaction() as connection:
            known = {finding.instance for finding in await self._findings.open(connection, name)}
            before = await self._findings.records(connection, name, [*existing, *known])
        others = {one.id for one in before.values() if one.driver != name}
        unknown: dict[str, str] = {}
        verdicts = await self._judge_all(driver, {*existing, *before, *known} - others, before, unknown)
        if suspects := {each for each, found in verdicts.items() if any(found.values())}:
            await asyncio.sleep(self._confirm_after)
            again = await self._judge_all(driver, suspects, before, unknown)
            verdicts |= {each: confirmed(verdicts[each], found) for each, found in again.items()}
        await self._write(grant, name, existing, before, verdicts, _summary(unknown, len(verdicts)))

    async def _judge_all(
        self, driver: Driver, ids: set[str], records: Records, unknown: dict[str, str]
    ) -> dict[str, Verdicts]:
        """Judge these instances. `unknown` gets, by id, the errors of instances that could not be observed."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def judge(id: str) -> Verdicts:
            async with limit:
                return await self._verdicts(driver, id, records.get(id), unknown)

        judged = await asyncio.gather(*map(judge, sorted(ids)))
        return dict(zip(sorted(ids), judged, strict=True))

    async def _verdicts(
        self, driver: Driver, id: str, instance: InstanceRecord | None, unknown: dict[str, str]
    ) -> Verdicts:
        if not is_settled(instance):
            return {}
        verdicts: Verdicts = {}
        try:
            verdicts |= driver_verdicts(instance, await driver.observe(id))
            verdicts |= await self._name_verdicts(instance)
        except Exception as error:
            log.warning("drift.not_observed", extra={"driver": driver.name, "instance": id, "why": _error_text(error)})
            unknown[id] = f"{instance.name if instance else id}: {_error_text(error)}"
        return verdicts

    async def _name_verdicts(self, instance: InstanceRecord | None) -> Verdicts:
        if (
            instance is None
            or instance.state not in ("running", "stopped")
            or not (instance.dns_name and instance.host)
        ):
            return {"dns": ""}
        published = await self._context.dns.lookup(instance.dns_name)
        return {"dns": ""} if published is None else dns_verdicts(instance, published)

    async def _write(
        self,
        grant: AsyncGrant,
        driver: str,
        existing: Mapping[str, str],
        before: Records,
        verdicts: Mapping[str, Verdicts],
        error: str,
    ) -> None:
        async with self._context.transactions.transaction() as connection:
            await grant.guard(connection)
            at = await self._records.clock(connection)
            now = await self._findings.records(connection, driver, list(verdicts))
            known = {(one.instance, one.kind): one for one in await self._findings.open(connection, driver)}
            for each, verdict in verdicts.items():
                instance = now.get(each)
                if not is_untouched(before.get(each), instance):
                    continue
                name = instance.name if instance else existing.get(each, "")
                for kind, detail in verdict.items():
                    finding = Finding(0, driver, each, kind, name, detail, at, None, None)
                    await self._settle(connection, instance, known.get((each, kind)), finding)
            await self._findings.fetch(connection, "note_look", driver, at, error)

    async def _settle(
        self, connection: Any, instance: InstanceRecord | None, known: Finding | None, finding: Finding
    ) -> None:
        at = finding.found_at
        facts = {"driver": finding.driver, "instance": finding.instance, "kind": finding.kind}
        if finding.detail and known is None:
            new = (finding.driver, finding.instance, finding.kind, finding.name, finding.detail, at)
            await self._findings.fetch(connection, "open_one", *new)
            log.warning("drift.found", extra=facts | {"detail": finding.detail})
            event_kind = f"drift found: {finding.kind}"
        elif known is not None and not finding.detail:
            await self._findings.fetch(connection, "close", known.id, at)
            log.info("drift.over", extra=facts)
            event_kind = f"drift over: {finding.kind}"
        else:
            if known is not None and known.detail != finding.detail:
                await self._findings.fetch(connection, "describe", known.id, finding.detail)
            return
        if instance is not None:
            await self._records.events.note(connection, instance.id, event_kind, at, finding.detail)

    async def _note_failure(self, grant: AsyncGrant, driver: str, error: str) -> None:
        async with self._context.transactions.transaction() as connection:
            await grant.guard(connection)
            at = await self._records.clock(connection)
            await self._findings.fetch(connection, "note_look", driver, at, error)


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, InterlockError | OSError) else f"{type(error).__name__}: {error}"


def _summary(unknown: Mapping[str, str], checked: int) -> str:
    """Returns a summary of the errors; empty if every instance could be observed."""
    if not unknown:
        return ""
    return f"{len(unknown)} of {checked} instances could not be checked completely; {next(iter(unknown.values()))}"
