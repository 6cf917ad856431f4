"""Requests for the work on records. Each is part of the caller's transaction: it is there if that commits.

Who may do what. A request locks the record. While an orchestration works on it, nothing is taken but what takes over:
that names itself as the one that works on it, so that no step of the other writes any more, and cancels it. An
orchestration says in the record when it ends; one that has ended without that, with its clean-up (somebody cancelled
it, or the engine gave it up), works no more, and keeps no request out.

What a crash leaves behind: nothing, or what was committed; the recorded orchestration is started by any replica.
"""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Generic

from interlock.aggregate.events import INTERLOCK
from interlock.aggregate.record import DELETED, DELETING, R, Task
from interlock.aggregate.table import RecordTable
from interlock.durable import requests
from interlock.durable.declarations import Orchestration
from interlock.durable.status import is_unfinished
from interlock.errors import IllegalTransition, OnceConflict

EMPTY_TASK = Task()


class Requests(Generic[R]):
    """`records` is for reading. What is asked for has ended when the record's orchestration has. `by` is the actor."""

    def __init__(self, records: RecordTable[R]) -> None:
        self.records = records

    async def insert(
        self,
        connection: Any,
        id: str,
        columns: Mapping[str, Any],
        orchestration: Orchestration[Any, Any],
        task: Task = EMPTY_TASK,
        *,
        by: str = INTERLOCK,
    ) -> R:
        """A new record, worked on by `orchestration`."""
        work = self.new_id(id, orchestration)
        at = await self.records.insert(connection, id=id, orchestration=work, created_by=by, **columns)
        return await self._record_start(connection, id, orchestration, replace(task, orchestration=work), by, at)

    async def begin(
        self,
        connection: Any,
        record: R,
        event: str | None,
        orchestration: Orchestration[Any, Any],
        task: Task = EMPTY_TASK,
        *,
        by: str = INTERLOCK,
        key: str | None = None,
        columns: Mapping[str, Any] = MappingProxyType({}),
    ) -> R:
        """`record` is locked; whatever works on it is cancelled and followed. `event` None leaves it in its state.

        `columns` are written too. `key`: see `new_id`.
        """
        if event is not None:
            await self.records.apply_event(connection, record, event)
        after = record.orchestration if record.working else None
        if after is not None:
            reason = f"{_verb(orchestration)} was asked for"
            await requests.cancel(connection, self.records.schema, after, reason)
        work = self.new_id(record.id, orchestration, key)
        at = await self.records.change(
            connection, record.id, orchestration=work, working=True, error=None, error_code=None, **columns
        )
        return await self._record_start(
            connection, record.id, orchestration, replace(task, orchestration=work, after=after), by, at
        )

    async def change_state(self, connection: Any, record: R, event: str, *, by: str = INTERLOCK) -> R:
        """A change of state that needs no work. `record` is locked."""
        await self.records.apply_event(connection, record, event)
        at = await self.records.change(connection, record.id)
        await self.records.events.note(connection, record.id, event, at, actor=by)
        return await self.records.read(connection, record.id)

    async def begin_deletion(
        self,
        connection: Any,
        id: str,
        orchestration: Orchestration[Any, Any],
        *,
        by: str = INTERLOCK,
        columns: Mapping[str, Any] = MappingProxyType({}),
        check: Callable[[R], Awaitable[None]] | None = None,
    ) -> R:
        """Whatever works on the record. Of one that is being deleted nothing is changed. `check` may refuse."""
        record = await self.lock_present(connection, id)
        if record.state == DELETING and record.working:
            return record
        if check is not None:
            await check(record)
        return await self.begin(connection, record, "delete", orchestration, by=by, columns=columns)

    async def find_repeated(self, connection: Any, id: str | None, **same: Any) -> R | None:
        """The record that an earlier try of this request made under that id. Raises `OnceConflict` for another one."""
        try:
            record = id and await self.records.read(connection, id)
        except self.records.unknown:
            return None
        if record and any(getattr(record, name) != value for name, value in same.items()):
            word = self.records.word
            raise OnceConflict(f"The {word} {record.label} was made under that key: use a new one.", key=record.id)
        return record or None

    async def cancel(self, connection: Any, id: str, *, by: str = INTERLOCK) -> R:
        """The orchestration that works on it is cut short, and its clean-up says how the record is then."""
        record = await self.lock(connection, id)
        if not record.working:
            raise IllegalTransition(
                f"Nothing works on the {self.records.word} {record.label}, which is {record.state}: leave it as it is.",
                state=record.state,
                event="cancel",
            )
        await requests.cancel(connection, self.records.schema, record.orchestration, "that was asked for")
        at = await self.records.clock(connection)
        await self.records.events.note(
            connection, id, "cancel asked for", at, actor=by, orchestration=record.orchestration
        )
        return record

    async def lock(self, connection: Any, id: str) -> R:
        """`working` is whether anything really does."""
        record = await self.records.lock(connection, id)
        if record.working:
            is_working = await is_unfinished(connection, self.records.schema, record.orchestration)
            return replace(record, working=is_working)
        return record

    async def lock_present(self, connection: Any, id: str) -> R:
        """Locked, whatever works on it. Raises the table's `unknown` if it is deleted."""
        record = await self.lock(connection, id)
        if record.state == DELETED:
            raise self.records.unknown(f"The {self.records.word} {record.label} is deleted: list those that there are.")
        return record

    async def lock_idle(self, connection: Any, id: str) -> R:
        """Locked, and nothing works on it. Raises the table's `busy`."""
        record = await self.lock(connection, id)
        if record.working:
            raise self.records.busy(
                f"The {self.records.word} {record.label} is {record.state}, and {record.orchestration} works on it: "
                "wait until that has ended.",
                orchestration=record.orchestration,
            )
        return record

    def new_id(self, id: str, orchestration: Orchestration[Any, Any], key: str | None = None) -> str:
        """The id of an orchestration that works on the record, the same each time for a `key`."""
        return f"{self.records.word}-{id}-{_verb(orchestration)}-{key or uuid.uuid4().hex[:8]}"

    async def _record_start(
        self,
        connection: Any,
        id: str,
        orchestration: Orchestration[Any, Any],
        task: Task,
        by: str,
        at: Any,
    ) -> R:
        kind, work = f"{_verb(orchestration)} asked for", task.orchestration
        await self.records.events.note(connection, id, kind, at, actor=by, orchestration=work)
        await requests.record(connection, self.records.schema, orchestration, work, replace(task, record=id))
        return await self.records.read(connection, id)


def _verb(orchestration: Orchestration[Any, Any]) -> str:
    return orchestration.name.rpartition(".")[2]
