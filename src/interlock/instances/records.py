"""The records of instances: rows, what happened to them and what their checks found.

Every function works in the transaction that is open on `connection`, which may be of any kind that Interlock knows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, Literal

from interlock import connections
from interlock.errors import InstanceUnknown
from interlock.idempotency import EventLog
from interlock.instances.drivers.port import Endpoint, Spec
from interlock.instances.model import Health, State
from interlock.stores.postgres.queries import Queries

Sort = Literal["name", "state", "health", "created"]
Cursor = tuple[str, str]
"""Where a page ended."""


@dataclass(frozen=True)
class Instance:
    """`orchestration` works on it while `working`, and was the last that did otherwise. `watcher` checks its health."""

    id: str
    name: str
    dns_name: str | None
    driver: str
    version: str | None
    storage_bytes: int | None
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    state: State
    health: Health
    host: str | None
    port: int | None
    owner: str | None
    database: str | None
    ca: str | None
    error: str | None
    error_code: str | None
    orchestration: str
    working: bool
    watcher: str | None
    created_at: datetime
    updated_at: datetime
    names_freed_at: datetime | None
    deleted_at: datetime | None

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
class Page:
    """`following` is where the next one begins; None: that was the last."""

    instances: Sequence[Instance]
    following: Cursor | None


@dataclass(frozen=True)
class Happening:
    kind: str
    recorded_at: datetime
    detail: str = ""


@dataclass(frozen=True)
class Check:
    recorded_at: datetime
    healthy: bool
    milliseconds: float
    detail: str


class Records:
    """Those in one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._events = EventLog(f"{schema}.instance_event", subject="instance")

    async def insert(self, connection: Any, spec: Spec, driver: str, orchestration: str) -> None:
        await self.ask(
            connection,
            "insert",
            spec.id,
            spec.name,
            spec.dns_name,
            driver,
            spec.version,
            spec.storage_bytes,
            json.dumps(dict(spec.parameters)),
            json.dumps(dict(spec.tags)),
            orchestration,
        )

    async def read(self, connection: Any, id: str) -> Instance:
        return _instance(await self.ask(connection, "read", id), id)

    async def lock(self, connection: Any, id: str) -> Instance:
        """Nobody else writes it until the transaction ends."""
        return _instance(await self.ask(connection, "lock", id), id)

    async def find(self, connection: Any, id_or_name: str) -> Instance:
        return _instance(await self.ask(connection, "find", id_or_name), id_or_name)

    async def page(
        self,
        connection: Any,
        *,
        deleted: bool = False,
        states: Sequence[State] | None = None,
        name_part: str | None = None,
        tags: Mapping[str, str] | None = None,
        sort: Sort = "name",
        descending: bool = False,
        after: Cursor | None = None,
        limit: int = 50,
    ) -> Page:
        key, last = after or (None, None)
        wanted = None if states is None else list(states)
        statement = "list_down" if descending else "list_up"
        rows = await self.ask(
            connection, statement, deleted, wanted, name_part, json.dumps(tags or {}), sort, key, last, limit + 1
        )
        shown = [instance_of(row[1:]) for row in rows[:limit]]
        return Page(shown, (rows[limit - 1][0], shown[-1].id) if len(rows) > limit else None)

    async def note(self, connection: Any, id: str, kind: str, at: datetime, detail: str = "") -> None:
        """What happened, once for its kind and the recorded time."""
        await self._events.append(connection, id, kind, at, {"detail": _storable(detail)})

    async def events(
        self, connection: Any, id: str, limit: int = 100, *, after: Happening | None = None
    ) -> list[Happening]:
        """The newest first; those that come after that one."""
        place = (after.recorded_at, after.kind) if after else (None, None)
        return [Happening(*row) for row in await self.ask(connection, "events", id, limit, *place)]

    async def checks(self, connection: Any, id: str, limit: int = 100) -> list[Check]:
        return [Check(*row) for row in await self.ask(connection, "checks", id, limit)]

    async def prune(self, connection: Any, *, events: float, checks: float, limit: int = 10_000) -> int:
        """Forget what was recorded longer ago than so many seconds, of each `limit` at most; how much that was."""
        gone = await self.ask(connection, "prune_events", events, limit)
        return len(gone) + len(await self.ask(connection, "prune_checks", checks, limit))

    async def ask(self, connection: Any, name: str, *args: Any) -> connections.Rows:
        return await asked(connection, _queries(self.schema)[name].replace(":columns", COLUMNS), *args)


async def asked(connection: Any, statement: str, *args: Any) -> connections.Rows:
    return await connections.ask(connection, _rows(statement, [_storable(each) for each in args]))


def _storable(value: Any) -> Any:
    """What other systems say may have in it what PostgreSQL keeps in no text: that must not keep the rest back."""
    return value.encode(errors="replace").decode().replace("\0", "?") if isinstance(value, str) else value


@cache
def _queries(schema: str) -> Queries:
    return Queries("interlock.instances", "queries.sql", schema)


def _rows(sql: str, args: Sequence[Any]) -> connections.Steps[connections.Rows]:
    return (yield sql, args)


def _instance(rows: connections.Rows, sought: str) -> Instance:
    if not rows:
        raise InstanceUnknown(f"There is no instance {sought!r}: list those that there are.")
    return instance_of(rows[0])


_NAMES = [field.name for field in fields(Instance)]
_JSON = ("parameters", "tags")
COLUMNS = ", ".join(f"i.{name}::text" if name in _JSON else f"i.{name}" for name in _NAMES)
"""As text what drivers would read as JSON or not, each in its own way."""


def instance_of(row: Sequence[Any]) -> Instance:
    """Of a row with `COLUMNS`."""
    facts = dict(zip(_NAMES, row, strict=True))
    return Instance(**facts | {name: json.loads(facts[name]) for name in _JSON})
