"""The records of one kind, as rows: insert, read, lock, change, apply an event of the state machine, list.

Every function works in the transaction that is open on `connection`, which may be of any kind that Interlock supports.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Generic

from interlock import user_connections
from interlock.aggregate.events import RecordHistory
from interlock.aggregate.record import R
from interlock.aggregate.transactions import fetch, queries, storable
from interlock.errors import IllegalTransition, RecordBusy, RecordUnknown
from interlock.idempotency import Done, Refused, StateMachine
from interlock.idempotency.machine import Transitions
from interlock.stores.postgres.queries import in_schema

Cursor = tuple[str, str]
"""The end of a page: the sort key and the id of its last record."""


@dataclass(frozen=True)
class Page(Generic[R]):
    """One page of records. `following` is the start of the next page; None on the last page."""

    items: Sequence[R]
    following: Cursor | None


class RecordTable(Generic[R]):
    """A subclass declares the kind of record, and adds statements of its own.

    `word` names a record in messages and events, `table` in the database. `filters` are the conditions of `page` in
    SQL, and `sorts` its sort keys (texts); in both, ``t`` is the record and ``{0}`` the requested value.
    """

    record: type[R]
    table: str
    word: str
    transitions: ClassVar[Transitions]
    unknown: type[RecordUnknown]
    busy: type[RecordBusy]
    list_hint: str = "list the existing records"
    """The advice to list the records, in errors about a record that does not exist."""
    package: str = ""
    """The package with the ``queries.sql`` of `fetch`."""
    json_columns: frozenset[str] = frozenset()
    filters: ClassVar[Mapping[str, str]] = {}
    sorts: ClassVar[Mapping[str, str]] = {}

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.machine = StateMachine(f"{schema}.{self.table}", self.transitions)
        self.events = RecordHistory(schema, self.word)
        self._names = [field.name for field in fields(self.record)]
        # Database drivers read JSON differently, so JSON columns are selected as text.
        self.columns = ", ".join(f"t.{name}{'::text' * (name in self.json_columns)}" for name in self._names)

    async def insert(self, connection: Any, **columns: Any) -> datetime:
        """Insert a record in its first state, with `orchestration` working on it. Returns the creation time."""
        names, values = ", ".join(columns), [self._stored(*column) for column in columns.items()]
        places = ", ".join(self._place(name, number) for number, name in enumerate(columns, 1))
        statement = (
            f"INSERT INTO {self._table} ({names}, created_at, updated_at) VALUES ({places}, {self._now}, {self._now}) "
            "RETURNING created_at"
        )
        [[at]] = await fetch(connection, statement, *values)
        return at  # type: ignore[no-any-return]

    async def read(self, connection: Any, id: str) -> R:
        return self.one(await self._fetch_own(connection, "read", id), id)

    async def find(self, connection: Any, id: str) -> R:
        """Find a record by the name that users give it. By default, this name is the record's id."""
        return await self.read(connection, id)

    async def lock(self, connection: Any, id: str) -> R:
        """Lock the record: no other transaction writes it until the current transaction ends."""
        return self.one(await self._fetch_own(connection, "lock", id), id)

    async def change(self, connection: Any, id: str, at: datetime | None = None, **columns: Any) -> datetime:
        """Write columns, and return the time of the change: `at`, or the current time if `at` is None."""
        values = [self._stored(*column) for column in columns.items()]
        writes = "".join(f"{name} = {self._place(name, number)}, " for number, name in enumerate(columns, 3))
        statement = (
            f"UPDATE {self._table} SET {writes}updated_at = coalesce(CAST($2 AS timestamptz), {self._now}), "
            "revision = revision + 1 WHERE id = $1 RETURNING updated_at"
        )
        [[changed_at]] = await fetch(connection, statement, id, at, *values)
        return changed_at  # type: ignore[no-any-return]

    async def apply_event(self, connection: Any, record: R, event: str, **columns: Any) -> bool:
        """Write the event's target state, with `columns`, into a locked record.

        Returns False if the record was in that state already. Raises `IllegalTransition` if the record's state does not
        allow the event. Use `change` for JSON columns.
        """
        values = {name: storable(value) for name, value in columns.items()} | {"revision": record.revision + 1}
        decision = await self.machine.apply(connection, record.id, event, values=values)
        if isinstance(decision, Refused):
            raise self.illegal(record, event)
        return isinstance(decision, Done)

    async def page(
        self,
        connection: Any,
        *,
        sort: str = "created",
        descending: bool = False,
        deleted: bool = False,
        after: Cursor | None = None,
        limit: int = 50,
        **wanted: Any,
    ) -> Page[R]:
        """Returns a page of records. `wanted` are the values of `filters`; None leaves a filter out."""
        given = {name: value for name, value in wanted.items() if value is not None}
        values = [self._stored(*each) for each in given.items()]
        conditions = [self._filters()[name].format(f"${place}") for place, name in enumerate(given, 1)]
        conditions += [] if deleted else ["t.deleted_at IS NULL"]
        direction, comparison = ("DESC", "<") if descending else ("", ">")
        key, kind = self._sort_keys()[sort]
        if after is not None:
            values += after
            last = f"CAST(CAST(${len(values) - 1} AS text) AS {kind}), CAST(${len(values)} AS text)"
            conditions.append(f"({key}, t.id) {comparison} ({last})")
        statement = in_schema(
            f"SELECT CAST({key} AS text), {self.columns} FROM interlock.{self.table} t "
            f"WHERE {' AND '.join(conditions) or 'true'} ORDER BY {key} {direction}, t.id {direction} "
            f"LIMIT CAST(${len(values) + 1} AS integer)",
            self.schema,
        )
        rows = await fetch(connection, statement, *values, limit + 1)
        items = [self.from_row(row[1:]) for row in rows[:limit]]
        return Page(items, (rows[limit - 1][0], items[-1].id) if len(rows) > limit else None)

    async def clock(self, connection: Any) -> datetime:
        [[now]] = await self._fetch_own(connection, "clock")
        return now  # type: ignore[no-any-return]

    async def fetch(self, connection: Any, name: str, *args: Any) -> user_connections.Rows:
        """Run a statement of the domain's own.

        In it, ``:columns`` stands for the columns of `from_row`, from a table ``t``.
        """
        statement = queries(self.package, self.schema)[name]
        return await fetch(connection, statement.replace(":columns", self.columns), *args)

    def one(self, rows: user_connections.Rows, sought: str) -> R:
        if not rows:
            raise self.unknown(f"There is no {self.word} {sought!r}: {self.list_hint}.")
        return self.from_row(rows[0])

    def from_row(self, row: Sequence[Any]) -> R:
        facts = dict(zip(self._names, row, strict=True))
        return self.record(**facts | {name: json.loads(facts[name] or "null") for name in self.json_columns})

    def illegal(self, record: R, verb: str) -> IllegalTransition:
        return IllegalTransition(
            f"The {self.word} {record.label} is {record.state} and cannot {verb}: look up which requests this "
            "state allows.",
            state=record.state,
            event=verb,
        )

    def triggers(self) -> str:
        """Returns the SQL of the state machine's triggers, for the migration that creates the table."""
        lines = self.machine.install_sql("interlock.state_machine_v1").splitlines()
        return "\n".join(line for line in lines if not line.startswith("DROP")).replace('"', "")

    def _filters(self) -> Mapping[str, str]:
        return {"states": "t.state = ANY (CAST({0} AS text[]))", **self.filters}

    def _sort_keys(self) -> Mapping[str, tuple[str, str]]:
        """Returns the sort keys: SQL expressions with their types."""
        texts = {name: (_text(key), "text") for name, key in {"state": "t.state", **self.sorts}.items()}
        return {"created": ("t.created_at", "timestamptz"), **texts}

    async def _fetch_own(self, connection: Any, name: str, *args: Any) -> user_connections.Rows:
        statement = queries("interlock.aggregate", self.schema)[name]
        return await fetch(
            connection, statement.replace(":columns", self.columns).replace(":table", self._table), *args
        )

    def _stored(self, name: str, value: Any) -> Any:
        """Returns a JSON value as text, because each kind of connection converts values in its own way."""
        if name not in self.json_columns or value is None:
            return value
        return json.dumps(_storable(value))

    def _place(self, name: str, number: int) -> str:
        return f"CAST(CAST(${number} AS text) AS jsonb)" if name in self.json_columns else f"${number}"

    @property
    def _table(self) -> str:
        return in_schema(f"interlock.{self.table}", self.schema)

    @property
    def _now(self) -> str:
        return in_schema("interlock.now_v1()", self.schema)


class NamedTable(RecordTable[R]):
    """Records with a column `name`. One record at a time holds a name."""

    is_held = "t.deleted_at IS NULL"
    """The condition under which a record holds its name."""

    async def find(self, connection: Any, id: str) -> R:
        """Find a record by its id, or by its name if it is not deleted. The record that holds the name comes first."""
        statement = (
            f"SELECT {self.columns} FROM {self._table} t WHERE t.id = $1 OR (t.name = $1 AND t.deleted_at IS NULL) "
            f"ORDER BY t.id = $1 DESC, ({self.is_held}) DESC, t.created_at DESC LIMIT 1"
        )
        return self.one(await fetch(connection, statement, id), id)

    def _filters(self) -> Mapping[str, str]:
        return {"name_part": "strpos(t.name, CAST({0} AS text)) > 0", **super()._filters()}

    def _sort_keys(self) -> Mapping[str, tuple[str, str]]:
        return {"name": (_text("t.name"), "text"), **super()._sort_keys()}


def _text(key: str) -> str:
    """Returns a sort key whose order no locale changes. '' replaces NULL, because no comparison with NULL is true."""
    return f"coalesce({key}, '') COLLATE \"C\""


def _storable(value: Any) -> Any:
    """Returns a JSON value with every text passed through `storable`."""
    match value:
        case dict():
            return {storable(name): _storable(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_storable(inner) for inner in value]
        case _:
            return storable(value)
