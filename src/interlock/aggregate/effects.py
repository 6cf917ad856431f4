"""Steps of orchestrations on the records of one kind. A step may be repeated, and leaves one effect and one event.

Permissions: the record names the orchestration that works on it, and only the steps of that orchestration write the
record. Each write is one transaction with the fence of the attempt, the lock of the record, the comparison of its
orchestration, and the event (`owned`). A step of any other orchestration is refused (`RecordOvertaken`) before its
effect.

Crashes: a crash between an effect and its event leaves the effect, which the next attempt confirms. Interlock's fence
does not stop an effect outside the database if another orchestration takes over during the step. So an orchestration
that takes over first waits until its predecessor has ended (`has_ended`).
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_type_hints

from interlock.aggregate.record import DELETED, Failure, R, Task, Transition
from interlock.aggregate.table import RecordTable
from interlock.aggregate.transactions import Transactions
from interlock.aggregate.wait import wait_until
from interlock.codes import known_code
from interlock.durable.attempt import Attempt
from interlock.durable.declarations import FOREVER, Activity, Orchestrations, Retry
from interlock.durable.run import Run
from interlock.durable.status import is_unfinished, read_outcome
from interlock.errors import DoNotRetry, IllegalTransition, RecordOvertaken

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741
T = TypeVar("T", bound=Task)

_STEP = re.compile(r"^The activity '[^']*' failed: ")
"""The prefix of an `ActivityFailed`, which does not help a reader of the record."""
_TIMEOUT = 300.0


@dataclass(frozen=True)
class Changes:
    """The record's columns that an effect changes, and the detail of its event.

    `is_event` is False if there was nothing to do: then the history gets no event.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""
    is_event: bool = True


class Effects(Generic[R]):
    """The base of a domain's activities: the constructor declares steps with `effect`, `observation` and `activity`."""

    def __init__(self, work: Orchestrations, records: RecordTable[R], transactions: Transactions, retry: Retry) -> None:
        self._work = work
        self._records = records
        self._transactions = transactions
        self._retry = retry
        self.transition = self.activity(self._transition, FOREVER)
        self.read_state = self.activity(self._read_state, FOREVER)
        self.read_failure = self.activity(self._read_failure, FOREVER)
        self.has_ended = self.activity(self._has_ended, FOREVER)

    def activity(
        self,
        function: Callable[[Attempt, I], Awaitable[O]],
        retry: Retry | None = None,
        *,
        timeout: float = _TIMEOUT,
        interruptible: bool = False,
    ) -> Activity[I, O]:
        """Declare `function` as an activity, named like the function without its underscore."""
        declare = self._work.activity(
            name=function.__name__.removeprefix("_"),
            retry=retry or self._retry,
            timeout=timeout,
            interruptible=interruptible,
        )
        return declare(function)

    def observation(self, function: Callable[[R, T], Awaitable[O]]) -> Activity[T, O]:
        """Declare `function` as a step that only reads.

        It is called only if the record still names the step's orchestration.
        """

        async def perform(attempt: Attempt, task: T) -> O:
            async with self.owned(attempt, task) as (_, record):
                pass
            return await function(record, task)

        return self.activity(_like(function, perform, result=get_type_hints(function)["return"]))

    def effect(self, event: str, function: Callable[[R, T], Awaitable[Changes | None]]) -> Activity[T, str]:
        """Declare `function` as a step that changes something.

        The function is called once per attempt, outside of a transaction, and only if the record still names the step's
        orchestration. The changes that it returns and `event` are then written in one transaction. The step returns the
        detail of the event.
        """

        async def perform(attempt: Attempt, task: T) -> str:
            async with self.owned(attempt, task) as (_, record):
                pass
            changes = await function(record, task) or Changes()
            async with self.owned(attempt, task) as (connection, _):
                if changes.columns:
                    await self._records.change(connection, task.record, attempt.at, **changes.columns)
                if changes.is_event:
                    await self.note(connection, attempt, task, event, changes.detail)
            return changes.detail

        return self.activity(_like(function, perform, result=str))

    @asynccontextmanager
    async def owned(self, attempt: Attempt, task: Task) -> AsyncIterator[tuple[Any, R]]:
        """Open a transaction that commits only for the newest attempt of the orchestration that the record names.

        Yields the connection and the locked record.
        """
        async with self._transactions.transaction() as connection:
            await attempt.fence(connection)
            record = await self._records.lock(connection, task.record)
            if record.orchestration != task.orchestration:
                raise RecordOvertaken(
                    f"The orchestration {record.orchestration} works on the {self._records.word} {record.id} now: "
                    "leave the work to that orchestration."
                )
            yield connection, record

    async def note(self, connection: Any, attempt: Attempt, task: Task, kind: str, detail: str = "") -> None:
        """Add an event to the history of the record."""
        await self._records.events.note(
            connection, task.record, kind, attempt.at, detail, orchestration=task.orchestration
        )

    async def wait_for_predecessor(self, run: Run, task: Task) -> None:
        """Wait until the previous orchestration, which this one has replaced, and its clean-up have ended."""
        await wait_until(run, lambda: run.call(self.has_ended, task), lambda has_ended, _: has_ended)

    async def transition_columns(
        self, connection: Any, record: R, transition: Transition, attempt: Attempt
    ) -> Mapping[str, Any]:
        """Returns further columns to write in the transaction of a transition. A domain overrides this."""
        return {}

    async def _transition(self, attempt: Attempt, transition: Transition) -> None:
        """Write the state and the event.

        A repetition changes nothing, because the work has ended or the state is written already.
        """
        at, failure, columns = attempt.at, transition.failure, dict[str, Any]()
        async with self.owned(attempt, transition.task) as (connection, record):
            if not record.working:
                return
            state = record.state if transition.event is None else self._target(record, transition.event)
            moves = transition.event is not None and state != record.state
            if not (moves or transition.ends):
                return
            columns |= await self.transition_columns(connection, record, transition, attempt)
            if transition.event is not None and moves:
                columns |= {"deleted_at": at} if state == DELETED else {}
                await self._records.apply_event(connection, record, transition.event, **columns)
                columns = {}
            if transition.ends:
                columns |= {
                    "working": False,
                    "error": failure and failure.message,
                    "error_code": failure and failure.code,
                }
            await self._records.change(connection, record.id, at, **columns)
            kind = transition.event or ("failed" if failure else "done")
            await self.note(connection, attempt, transition.task, kind, failure.message if failure else "")

    def _target(self, record: R, event: str) -> str:
        machine = self._records.machine
        if event not in machine.events:
            raise DoNotRetry(f"A {self._records.word} has no event {event!r}: correct the orchestration.")
        if record.state == machine.target(event):
            return record.state
        try:
            return machine.next_state(record.state, event)
        except IllegalTransition as error:
            raise RecordOvertaken(
                f"The {self._records.word} {record.id} is {record.state} and cannot {event} any more: leave the "
                f"{self._records.word} as it is."
            ) from error

    async def _read_state(self, attempt: Attempt, task: Task) -> str | None:
        """Returns the record's state; None if this task has ended, or another orchestration works on the record."""
        async with self._transactions.transaction() as connection:
            record = await self._records.read(connection, task.record)
        return record.state if record.working and record.orchestration == task.orchestration else None

    async def _read_failure(self, attempt: Attempt, task: Task) -> Failure:
        """Returns the failure of the orchestration that this clean-up belongs to."""
        async with self._transactions.transaction() as connection:
            outcome = await read_outcome(connection, self._records.schema, task.orchestration)
        if outcome is None or (failure := outcome.failure) is None:
            return Failure("outcome_unknown", "The orchestration did not complete.")
        if outcome.kind == "cancelled":
            return Failure("cancelled", f"The orchestration was cancelled: {failure.message or 'no reason'}.")
        return Failure(known_code(failure.code), _STEP.sub("", failure.message))

    async def _has_ended(self, attempt: Attempt, task: Task) -> bool:
        """Return True if the predecessor of this task has ended, with its clean-up."""
        async with self._transactions.transaction() as connection:
            return task.after is None or not await is_unfinished(connection, self._records.schema, task.after)


def _like(function: Callable[..., Any], step: Callable[..., Any], *, result: Any) -> Callable[..., Any]:
    """Give `step` the name, the module and the types of `function`, which it calls, and return it."""
    _, task, *_ = get_type_hints(function).values()
    step.__name__, step.__qualname__, step.__module__ = function.__name__, function.__qualname__, function.__module__
    step.__annotations__ = {"attempt": Attempt, "task": task, "return": result}
    return step
