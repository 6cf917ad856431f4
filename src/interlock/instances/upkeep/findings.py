"""Findings of drift, as rows. Only the drift check opens and closes them."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from interlock import user_connections
from interlock.aggregate.transactions import fetch, queries
from interlock.errors import DriftUnknown
from interlock.instances.records import InstanceRecord, InstanceRecords
from interlock.instances.upkeep.comparison import Kind


@dataclass(frozen=True)
class Finding:
    """A finding of drift, open until `closed_at`. `repair` is the orchestration that was last started to repair it."""

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
    """The last check of a driver. `trouble` is the error if the check was incomplete, otherwise empty."""

    driver: str
    looked_at: datetime
    trouble: str


class Findings:
    """The findings of one schema. Every function works in the transaction that is open on `connection`."""

    def __init__(self, schema: str) -> None:
        self._records = InstanceRecords(schema)
        self._queries = queries("interlock.instances.upkeep", schema)

    async def page(self, connection: Any, *, closed: bool = False, limit: int = 200) -> list[Finding]:
        """Returns the findings, the newest first."""
        return [Finding(*row) for row in await self.fetch(connection, "page", closed, limit)]

    async def last_checks(self, connection: Any) -> list[LastCheck]:
        return [LastCheck(*row) for row in await self.fetch(connection, "looks")]

    async def open(self, connection: Any, driver: str) -> list[Finding]:
        return [Finding(*row) for row in await self.fetch(connection, "open", driver)]

    async def repairable(self, connection: Any, drivers: list[str]) -> list[Finding]:
        """Returns findings that need no operator for a repair and are not being repaired.

        Untried findings come first.
        """
        return [Finding(*row) for row in await self.fetch(connection, "repairable", drivers)]

    async def lock(self, connection: Any, id: int) -> Finding:
        """Lock an open finding. Raises `DriftUnknown` if there is no open finding with that id."""
        rows = await self.fetch(connection, "lock", id)
        if not rows or rows[0][_CLOSED] is not None:
            raise DriftUnknown(f"There is no open finding of drift {id}: list the open findings.")
        return Finding(*rows[0])

    async def records(self, connection: Any, driver: str, ids: list[str]) -> dict[str, InstanceRecord]:
        """Returns the records of that driver's instances that hold their names, and of the instances with these ids."""
        rows = await self.fetch(connection, "records", driver, ids)
        return {instance.id: instance for instance in map(self._records.from_row, rows)}

    async def fetch(self, connection: Any, name: str, *args: Any) -> user_connections.Rows:
        statement = self._queries[name].replace(":columns", self._records.columns).replace(":findings", _FINDINGS)
        return await fetch(connection, statement, *args)


_FINDINGS = ", ".join(f"d.{field.name}" for field in fields(Finding))
_CLOSED = [field.name for field in fields(Finding)].index("closed_at")
