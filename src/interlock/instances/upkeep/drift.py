"""Comparing the records with what the drivers, and the name server, really have.

Who may do what. Whoever holds the lease looks, and what it found counts only if it still holds it when that is written:
the transaction carries the guard of the grant. Nothing but the look opens or closes findings.

What else goes on meanwhile. Instances are created, changed and deleted all the time, and whoever works on one is named
in its record before anything is done (`working`), until everything is done. So, in this order:

1. The driver is asked what there is, and then the records are read. What was made in between has a record already, as
   that is committed before anything is made; and what was removed in between is looked at again.
2. Each is looked at, unless somebody works on it. What a record says was gone before it was read is absent, unless
   somebody put it back.
3. What seems to have drifted is looked at once more after a moment: a server that is restarted by others is up again.
4. The records are read again, in the transaction that writes. Of one whose record names another since, or is worked on,
   nothing is told. An orchestration's id is never used again, so a record that names the same one was not touched.

What cannot be told is left as it is: a driver that does not answer neither opens a finding nor closes one. Whatever it
fails with, of one instance or of all, the others are looked at, and that it did is told with the time of the look.
What a crash leaves behind: nothing. The next look sees what there is.
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
from interlock.instances.upkeep.findings import DriftFinding, Findings
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

    async def observe(self, grant: AsyncGrant) -> None:
        """Every driver, one after the other."""
        for name, driver in self._context.drivers.items():
            try:
                existing = await driver.ids()
            except Exception as error:
                log.warning("drift.untold", extra={"driver": name, "why": _error_text(error)})
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
        """In `untold` there is then, by id, why of some not everything could be told."""
        turn = asyncio.Semaphore(_AT_ONCE)

        async def judge(id: str) -> Verdicts:
            async with turn:
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
            verdicts |= await self._of_name(instance)
        except Exception as error:
            log.warning("drift.untold", extra={"driver": driver.name, "instance": id, "why": _error_text(error)})
            unknown[id] = f"{instance.name if instance else id}: {_error_text(error)}"
        return verdicts

    async def _of_name(self, instance: InstanceRecord | None) -> Verdicts:
        if (
            instance is None
            or instance.state not in ("running", "stopped")
            or not (instance.dns_name and instance.host)
        ):
            return {"dns": ""}
        seen = await self._context.dns.lookup(instance.dns_name)
        return {"dns": ""} if seen is None else dns_verdicts(instance, seen)

    async def _write(
        self,
        grant: AsyncGrant,
        driver: str,
        existing: Mapping[str, str],
        before: Records,
        verdicts: Mapping[str, Verdicts],
        trouble: str,
    ) -> None:
        async with self._context.transactions.transaction() as connection:
            await grant.guard(connection)
            at = await self._records.clock(connection)
            now = await self._findings.records(connection, driver, list(verdicts))
            known = {(one.instance, one.kind): one for one in await self._findings.open(connection, driver)}
            for each, found in verdicts.items():
                instance = now.get(each)
                if not is_untouched(before.get(each), instance):
                    continue
                name = instance.name if instance else existing.get(each, "")
                for kind, detail in found.items():
                    seen = DriftFinding(0, driver, each, kind, name, detail, at, None, None)
                    await self._settle(connection, instance, known.get((each, kind)), seen)
            await self._findings.fetch(connection, "note_look", driver, at, trouble)

    async def _settle(
        self, connection: Any, instance: InstanceRecord | None, known: DriftFinding | None, seen: DriftFinding
    ) -> None:
        at = seen.found_at
        facts = {"driver": seen.driver, "instance": seen.instance, "kind": seen.kind}
        if seen.detail and known is None:
            new = (seen.driver, seen.instance, seen.kind, seen.name, seen.detail, at)
            await self._findings.fetch(connection, "open_one", *new)
            log.warning("drift.found", extra=facts | {"detail": seen.detail})
            happened = f"drift found: {seen.kind}"
        elif known is not None and not seen.detail:
            await self._findings.fetch(connection, "close", known.id, at)
            log.info("drift.over", extra=facts)
            happened = f"drift over: {seen.kind}"
        else:
            if known is not None and known.detail != seen.detail:
                await self._findings.fetch(connection, "describe", known.id, seen.detail)
            return
        if instance is not None:
            await self._records.events.note(connection, instance.id, happened, at, seen.detail)

    async def _note_failure(self, grant: AsyncGrant, driver: str, trouble: str) -> None:
        async with self._context.transactions.transaction() as connection:
            await grant.guard(connection)
            at = await self._records.clock(connection)
            await self._findings.fetch(connection, "note_look", driver, at, trouble)


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, InterlockError | OSError) else f"{type(error).__name__}: {error}"


def _summary(unknown: Mapping[str, str], looked_at: int) -> str:
    """Empty if everything could be told."""
    if not unknown:
        return ""
    return f"Of {len(unknown)} of {looked_at} instances not everything could be told; of {next(iter(unknown.values()))}"
