"""What was found to have drifted: rows, which the look writes and nobody else."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from interlock import user_connections
from interlock.aggregate.transactions import fetch, queries
from interlock.errors import DriftUnknown
from interlock.instances.records import InstanceRecord, InstanceRecords
from interlock.instances.upkeep.comparison import Kind


@dataclass(frozen=True)
class DriftFinding:
    """Open until `closed_at`. `repair` is the orchestration that was last asked to put it right."""

    id: int
    driver: str
    instance: str
    kind: Kind
    name: str
    detail: str
    found_at: datetime
    closed_at: datetime | None
    repair: str | None


@dataclass(frozen=True)
class LastCheck:
    """When a driver was last looked at; with `trouble`, that told nothing, or not everything, and why."""

    driver: str
    looked_at: datetime
    trouble: str


class Findings:
    """Those in one schema. Every function works in the transaction that is open on `connection`."""

    def __init__(self, schema: str) -> None:
        self._records = InstanceRecords(schema)
        self._queries = queries("interlock.instances.upkeep", schema)

    async def page(self, connection: Any, *, closed: bool = False, limit: int = 200) -> list[DriftFinding]:
        """The newest first."""
        return [DriftFinding(*row) for row in await self.fetch(connection, "page", closed, limit)]

    async def last_checks(self, connection: Any) -> list[LastCheck]:
        return [LastCheck(*row) for row in await self.fetch(connection, "looks")]

    async def open(self, connection: Any, driver: str) -> list[DriftFinding]:
        return [DriftFinding(*row) for row in await self.fetch(connection, "open", driver)]

    async def repairable(self, connection: Any, drivers: list[str]) -> list[DriftFinding]:
        """What may be put right without asking anybody, and is not being; what was never tried comes first."""
        return [DriftFinding(*row) for row in await self.fetch(connection, "repairable", drivers)]

    async def lock(self, connection: Any, id: int) -> DriftFinding:
        """An open one. Raises `DriftUnknown`."""
        rows = await self.fetch(connection, "lock", id)
        if not rows or rows[0][_CLOSED] is not None:
            raise DriftUnknown(f"There is no drift {id} that is still so: list what there is.")
        return DriftFinding(*rows[0])

    async def records(self, connection: Any, driver: str, ids: list[str]) -> dict[str, InstanceRecord]:
        """Of that driver's instances those that hold their names, and these."""
        rows = await self.fetch(connection, "records", driver, ids)
        return {instance.id: instance for instance in map(self._records.from_row, rows)}

    async def fetch(self, connection: Any, name: str, *args: Any) -> user_connections.Rows:
        statement = self._queries[name].replace(":columns", self._records.columns).replace(":findings", _FINDINGS)
        return await fetch(connection, statement, *args)


_FINDINGS = ", ".join(f"d.{field.name}" for field in fields(DriftFinding))
_CLOSED = [field.name for field in fields(DriftFinding)].index("closed_at")
