"""Requests for work on records.

A request is part of the caller's transaction, and takes effect when the transaction commits.

Permissions: a request locks the record. While an orchestration works on the record, only a request that takes over is
accepted. Such a request writes its own orchestration into the record, so that no step of the previous orchestration
writes any more, and cancels the previous orchestration. An orchestration clears `working` when it ends. If an
orchestration and its clean-up have ended without that (it was cancelled, or the engine gave it up), the record no
longer counts as working, and blocks no request.

Crashes: a crash leaves nothing, or all that was committed. Any replica starts the recorded orchestration.
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
    """Requests for records of one kind. `records` is for reading, and `by` is the actor.

    A request is done when the record's orchestration has ended.
    """

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
        """Insert a new record, with `orchestration` working on it."""
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
        """Start an orchestration on a locked record.

        If another orchestration works on the record, that one is cancelled, and the new one waits for its end.
        `event=None` leaves the state as it is. `columns` are written into the record too. For `key` see `new_id`.
        """
        if event is not None:
            await self.records.apply_event(connection, record, event)
        after = record.orchestration if record.working else None
        if after is not None:
            reason = f"{_verb(orchestration)} was requested"
            await requests.cancel(connection, self.records.schema, after, reason)
        work = self.new_id(record.id, orchestration, key)
        at = await self.records.change(
            connection, record.id, orchestration=work, working=True, error=None, error_code=None, **columns
        )
        return await self._record_start(
            connection, record.id, orchestration, replace(task, orchestration=work, after=after), by, at
        )

    async def change_state(self, connection: Any, record: R, event: str, *, by: str = INTERLOCK) -> R:
        """Apply an event that needs no orchestration. The caller has to lock `record` first."""
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
        """Start the deletion, even while another orchestration works on the record.

        `check` may raise an error to refuse the deletion.

        A record that is being deleted is returned unchanged.
        """
        record = await self.lock_present(connection, id)
        if record.state == DELETING and record.working:
            return record
        if check is not None:
            await check(record)
        return await self.begin(connection, record, "delete", orchestration, by=by, columns=columns)

    async def find_repeated(self, connection: Any, id: str | None, **same: Any) -> R | None:
        """Returns the record that an earlier attempt of the request created under `id`, or None.

        Raises `OnceConflict` if the record has other values than `same`.
        """
        try:
            record = id and await self.records.read(connection, id)
        except self.records.unknown:
            return None
        if record and any(getattr(record, name) != value for name, value in same.items()):
            word = self.records.word
            raise OnceConflict(
                f"The {word} {record.label} was created under that key with other values: use a new key.", key=record.id
            )
        return record or None

    async def cancel(self, connection: Any, id: str, *, by: str = INTERLOCK) -> R:
        """Cancel the orchestration that works on the record.

        The clean-up of that orchestration writes the record's state.
        """
        record = await self.lock(connection, id)
        if not record.working:
            raise IllegalTransition(
                f"No orchestration works on the {self.records.word} {record.label}, which is {record.state}: there is "
                "nothing to cancel.",
                state=record.state,
                event="cancel",
            )
        await requests.cancel(connection, self.records.schema, record.orchestration, "that was requested")
        at = await self.records.clock(connection)
        await self.records.events.note(
            connection, id, "cancel requested", at, actor=by, orchestration=record.orchestration
        )
        return record

    async def lock(self, connection: Any, id: str) -> R:
        """Lock the record and return it. Its `working` is True only if the orchestration has not ended yet."""
        record = await self.records.lock(connection, id)
        if record.working:
            is_working = await is_unfinished(connection, self.records.schema, record.orchestration)
            return replace(record, working=is_working)
        return record

    async def lock_present(self, connection: Any, id: str) -> R:
        """Lock the record, even while an orchestration works on it.

        Raises the table's `unknown` if the record is deleted.
        """
        record = await self.lock(connection, id)
        if record.state == DELETED:
            raise self.records.unknown(f"The {self.records.word} {record.label} is deleted: {self.records.list_hint}.")
        return record

    async def lock_idle(self, connection: Any, id: str) -> R:
        """Lock the record. Raises the table's `busy` while an orchestration works on it."""
        record = await self.lock(connection, id)
        if record.working:
            raise self.records.busy(
                f"The {self.records.word} {record.label} is {record.state}, and {record.orchestration} works on it: "
                "wait until that orchestration has ended.",
                orchestration=record.orchestration,
            )
        return record

    def new_id(self, id: str, orchestration: Orchestration[Any, Any], key: str | None = None) -> str:
        """Returns a new id for an orchestration on the record. The same `key` gives the same id each time."""
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
        kind, work = f"{_verb(orchestration)} requested", task.orchestration
        await self.records.events.note(connection, id, kind, at, actor=by, orchestration=work)
        await requests.record(connection, self.records.schema, orchestration, work, replace(task, record=id))
        return await self.records.read(connection, id)


def _verb(orchestration: Orchestration[Any, Any]) -> str:
    return orchestration.name.rpartition(".")[2]
