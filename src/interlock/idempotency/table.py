"""Rows that are created once, updated only if a value differs, and marked as deleted instead of removed.

The first caller creates the row and is its owner. A second call by the same owner gets that row, unchanged; another
owner is refused. Of two concurrent calls, the second waits at the unique constraint for the first one's transaction, as
with any INSERT (limit that with `lock_timeout`), and then finds its row.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.errors import ConfigurationError, InterlockError, RetryTransaction
from interlock.idempotency.arguments import checked_moment, column, quoted
from interlock.idempotency.decisions import Decision, Done, Refused, Replayed, decided
from interlock.user_connections import Steps, run_steps, run_steps_sync

_TRIES = 10
_NO_CONSTRAINT = "42P10"


class Table:
    """One of your tables, with the columns for its unique `key`, for its `owner`, and for the time of its deletion.

    `deleted_at` is a column of type timestamptz, NULL until the row is deleted.
    """

    def __init__(self, name: str, *, key: str = "id", owner: str = "owner", deleted_at: str = "deleted_at") -> None:
        self.name = name
        self._table = quoted(name)
        self._key, self._owner, self._deleted_at = column(key), column(owner), column(deleted_at)
        self._names = (key, owner)

    async def create(self, connection: Any, values: Mapping[str, Any]) -> Decision:
        """Insert the row, unless it exists. The decision's `value` is the row's owner; in `Refused`, another owner."""
        return await run_steps(connection, self._create(values), self._judge)

    def create_sync(self, connection: Any, values: Mapping[str, Any]) -> Decision:
        return run_steps_sync(connection, self._create(values), self._judge)

    async def update(
        self, connection: Any, key: Any, values: Mapping[str, Any], *, stamp: Mapping[str, Any] | None = None
    ) -> Decision:
        """Write the values that differ. None means "not given" and keeps the current value.

        The values of `stamp`, such as the time of the update, are written only if another value is written.
        """
        return await run_steps(connection, self._update(key, values, stamp or {}), self._judge)

    def update_sync(
        self, connection: Any, key: Any, values: Mapping[str, Any], *, stamp: Mapping[str, Any] | None = None
    ) -> Decision:
        return run_steps_sync(connection, self._update(key, values, stamp or {}), self._judge)

    async def delete(self, connection: Any, key: Any, at: datetime) -> Decision:
        """Mark the row as deleted at `at`. A marked row keeps its first time, which is the decision's `value`."""
        return await run_steps(connection, self._delete(key, at), self._judge)

    def delete_sync(self, connection: Any, key: Any, at: datetime) -> Decision:
        return run_steps_sync(connection, self._delete(key, at), self._judge)

    def _create(self, values: Mapping[str, Any]) -> Steps[Decision]:
        missing = [name for name in self._names if values.get(name) is None]
        if missing:
            raise ConfigurationError(
                f"A row of {self.name} was not created, because its {' and its '.join(missing)} is missing: pass it."
            )
        columns = ", ".join(map(column, values))
        places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        insert = (
            f"INSERT INTO {self._table} ({columns}) VALUES ({places}) "
            f"ON CONFLICT ({self._key}) DO NOTHING RETURNING {self._owner}"
        )
        read = f"SELECT {self._owner}, {self._owner} = $2 FROM {self._table} WHERE {self._key} = $1"
        key, owner = (values[name] for name in self._names)
        for _ in range(_TRIES):
            rows = yield insert, list(values.values())
            if rows:
                return decided(Done("create", self.name, key, owner))
            if found := (yield read, [key, owner]):
                return decided(self._found(key, *found[0]))
        raise _changed_each_time(self.name)

    def _found(self, key: Any, owner: Any, is_the_same: bool) -> Decision:
        if is_the_same:
            return Replayed("create", self.name, key, owner)
        return Refused("create", self.name, key, owner, f"the row belongs to {owner}")

    def _update(self, key: Any, values: Mapping[str, Any], stamp: Mapping[str, Any]) -> Steps[Decision]:
        given = {column(name): value for name, value in values.items() if value is not None}
        if given:
            parameters = [key, *given.values(), *stamp.values()]
            places = {name: f"${number}" for number, name in enumerate([*given, *map(column, stamp)], 2)}
            writes = ", ".join(f"{name} = {place}" for name, place in places.items())
            differs = " OR ".join(f"{name} IS DISTINCT FROM {places[name]}" for name in given)
            update = f"UPDATE {self._table} SET {writes} WHERE {self._key} = $1 AND ({differs}) RETURNING 1"
            rows = yield update, parameters
            if rows:
                return decided(Done("update", self.name, key, dict(values)))
        if (yield f"SELECT 1 FROM {self._table} WHERE {self._key} = $1", [key]):
            return decided(Replayed("update", self.name, key, dict(values)))
        return decided(_absent("update", self.name, key))

    def _delete(self, key: Any, at: datetime) -> Steps[Decision]:
        mark = (
            f"UPDATE {self._table} SET {self._deleted_at} = $2 "
            f"WHERE {self._key} = $1 AND {self._deleted_at} IS NULL RETURNING 1"
        )
        read = f"SELECT {self._deleted_at} FROM {self._table} WHERE {self._key} = $1"
        for _ in range(_TRIES):
            rows = yield mark, [key, checked_moment(at)]
            if rows:
                return decided(Done("delete", self.name, key, at))
            rows = yield read, [key]
            if not rows:
                return decided(_absent("delete", self.name, key))
            if rows[0][0] is not None:
                return decided(Replayed("delete", self.name, key, rows[0][0]))
        raise _changed_each_time(self.name)

    def _judge(self, code: str | None) -> InterlockError | None:
        if code == _NO_CONSTRAINT:
            return ConfigurationError(
                f"No constraint keeps a second row with the same {self._names[0]} out of {self.name}: "
                f"run ALTER TABLE {self._table} ADD UNIQUE ({self._key});"
            )
        return None


def _absent(what: str, table: str, key: Any) -> Refused:
    return Refused(what, table, key, None, "there is no such row")


def _changed_each_time(table: str) -> RetryTransaction:
    return RetryTransaction(
        f"A row of {table} changed at each attempt: roll the transaction back and run it again.",
        sqlstate="40001",
    )
