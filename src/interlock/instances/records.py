"""The records of instances, and what their health checks found."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

from interlock.aggregate.record import Record
from interlock.aggregate.table import NamedTable
from interlock.errors import InstanceBusy, InstanceUnknown
from interlock.instances.drivers.port import Endpoint, Spec
from interlock.instances.model import TRANSITIONS, Health, State

Sort = Literal["name", "state", "health", "created"]


@dataclass(frozen=True)
class InstanceRecord(Record):
    """`watcher` is the orchestration that checks the instance's health."""

    state: State
    name: str
    dns_name: str | None
    driver: str
    version: str | None
    storage_bytes: int | None
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    health: Health
    host: str | None
    port: int | None
    owner: str | None
    database: str | None
    ca: str | None
    watcher: str | None
    names_freed_at: datetime | None

    @property
    def label(self) -> str:
        return self.name

    @property
    def spec(self) -> Spec:
        return Spec(
            self.id, self.name, self.version, self.storage_bytes, dict(self.parameters), self.dns_name, dict(self.tags)
        )

    @property
    def endpoint(self) -> Endpoint | None:
        if self.host is None or self.port is None or self.owner is None or self.database is None:
            return None
        return Endpoint(self.host, self.port, self.owner, self.database, self.ca)


@dataclass(frozen=True)
class HealthCheckRecord:
    recorded_at: datetime
    healthy: bool
    milliseconds: float
    detail: str


class InstanceRecords(NamedTable[InstanceRecord]):
    record = InstanceRecord
    table = "instance"
    word = "instance"
    list_hint = "`interlock instance list` shows those that exist"
    transitions = TRANSITIONS
    unknown = InstanceUnknown
    busy = InstanceBusy
    package = "interlock.instances"
    json_columns = frozenset({"parameters", "tags"})
    filters: ClassVar = {"tags": "t.tags @> CAST(CAST({0} AS text) AS jsonb)"}
    sorts: ClassVar = {"health": "t.health"}
    is_held = "t.names_freed_at IS NULL"

    async def checks(self, connection: Any, id: str, limit: int = 100) -> list[HealthCheckRecord]:
        """Returns the health checks of an instance, the newest first."""
        return [HealthCheckRecord(*row) for row in await self.fetch(connection, "checks", id, limit)]

    async def prune_checks(self, connection: Any, older_than: float, limit: int) -> int:
        """Delete health checks older than `older_than` seconds, at most `limit`. Returns the number of deleted rows."""
        return len(await self.fetch(connection, "prune_checks", older_than, limit))
