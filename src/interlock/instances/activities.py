"""What orchestrations do to instances, step by step. Each step may be repeated.

Who may do what. The record names the orchestration that works on the instance, and only that one's steps write there:
each write is one transaction with the fence of the attempt, the lock of the record, the look at whose it is, and the
event. Whoever is not named any more is refused (`InstanceOvertaken`), and does not call a driver either.

What a crash leaves behind. Between a driver's effect and its event: the effect, which the next attempt confirms, as
every verb of a driver creates or confirms. What a step that is overtaken still does in a driver has no fence but the
driver's own lock of that instance; so `delete` first waits until whatever worked on the instance has ended, and what is
put back all the same while it goes is told to go again.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, TypeVar

from interlock import errors
from interlock.codes import known
from interlock.durable.attempt import Attempt
from interlock.durable.declared import Activity, Orchestrations
from interlock.durable.outcome import is_unfinished, read_outcome
from interlock.durable.retrying import Retry
from interlock.instances.backups.restoring import LONGEST, Restoring
from interlock.instances.drivers.port import Driver, Endpoint, Sight
from interlock.instances.health import FOREVER
from interlock.instances.model import State
from interlock.instances.moving import Moving
from interlock.instances.names import Names
from interlock.instances.reaching import reach
from interlock.instances.records import Instance, Records
from interlock.instances.surroundings import Surroundings
from interlock.instances.tasks import Failed, Heard, Move, Seen, Task

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741

_STEP = re.compile(r"^The activity '[^']*' failed: ")
"""How an `ActivityFailed` begins. Whoever reads a record asked for an instance, and knows nothing of activities."""
_FINAL = (
    errors.BackupDamaged,
    errors.BackupFailed,
    errors.BackupUnusable,
    errors.BadSpec,
    errors.BinariesMissing,
    errors.ConfigurationError,
    errors.DnsDenied,
    errors.DnsForeign,
    errors.DnsZoneUnknown,
    errors.ForeignResource,
    errors.InstanceAbsent,
    errors.InvalidName,
    errors.OutOfPorts,
    errors.OutOfSpace,
    errors.TlsUnavailable,
    errors.TooManyInstances,
)
"""Another attempt would end the same."""
_TIMEOUT = 300.0
_RESTORING = "restoring"
"""The event that names the transaction, of the instance's server, which is about to be committed."""
_PAUSES = (0.5, 1, 2, 4, 8, 15, 30)


class Activities:
    def __init__(self, work: Orchestrations, here: Surroundings, moving: Moving) -> None:
        self._work = work
        self._here = here
        self._records = Records(here.schema)
        self._names = Names(here)
        self._moving = moving
        self._restoring = Restoring(here)
        patient = replace(here.pace.retry, never=_FINAL)
        self.check = self._declared(self._check, patient)
        self.provision = self._declared(self._provision, patient)
        self.look = self._declared(self._look, patient)
        self.answer = self._declared(self._answer, patient)
        self.publish = self._declared(self._publish, patient)
        self.start = self._declared(self._start, patient)
        self.stop = self._declared(self._stop, patient)
        self.reset_password = self._declared(self._reset_password, patient)
        self.set_parameters = self._declared(self._set_parameters, patient)
        self.resize = self._declared(self._resize, patient)
        self.restore = self._declared(self._restore, patient, long=True)
        self.withdraw = self._declared(self._withdraw, patient)
        self.remove = self._declared(self._remove, patient)
        self.leave_behind = self._declared(self._leave_behind, patient)
        self.move = self._declared(self._move, FOREVER)
        self.standing = self._declared(self._standing, FOREVER)
        self.failure = self._declared(self._failure, FOREVER)
        self.is_ended = self._declared(self._is_ended, FOREVER)

    def _declared(
        self, function: Callable[[Attempt, I], Awaitable[O]], retry: Retry, *, long: bool = False
    ) -> Activity[I, O]:
        name = function.__name__.removeprefix("_")
        timeout = LONGEST if long else _TIMEOUT
        return self._work.activity(name=name, retry=retry, timeout=timeout, interruptible=long)(function)

    async def _check(self, attempt: Attempt, task: Task) -> None:
        """What is wrong with the request is said before anything is made."""
        instance, driver = await self._mine(attempt, task)
        await driver.check(instance.spec)
        await self._names.check(instance)
        await self._note(attempt, task, "checked")

    async def _provision(self, attempt: Attempt, task: Task) -> None:
        instance, driver = await self._mine(attempt, task)
        await driver.provision(instance.spec)
        await self._note(attempt, task, "provisioned")

    async def _look(self, attempt: Attempt, task: Task) -> Seen:
        _, driver = await self._mine(attempt, task)
        sight = await driver.look(task.instance)
        return Seen(sight.state, sight.detail, self._here.pace.patience)

    async def _answer(self, attempt: Attempt, task: Task) -> Heard:
        """If it is seen to answer, where it does is written down."""
        _, driver = await self._mine(attempt, task)
        sight = await driver.look(task.instance)
        endpoint = _endpoint(sight)
        begun = time.monotonic()
        try:
            await reach(driver, task.instance, endpoint, self._here.pace.check_timeout)
        except errors.DatabaseUnreachable as error:
            if sight.state != "running":
                raise
            return Heard(str(error), error.code, time.monotonic() - begun, self._here.pace.patience)
        async with self._owned(attempt, task) as (connection, _):
            where = (endpoint.host, endpoint.port, endpoint.user, endpoint.database, endpoint.ca, sight.version)
            await self._records.ask(connection, "note_endpoint", task.instance, *where, attempt.at)
            await self._records.note(connection, task.instance, "answered", attempt.at)
        return Heard()

    async def _publish(self, attempt: Attempt, task: Task) -> None:
        instance, _ = await self._mine(attempt, task)
        await self._names.publish(instance)
        await self._note(attempt, task, "published")

    async def _start(self, attempt: Attempt, task: Task) -> None:
        _, driver = await self._mine(attempt, task)
        await driver.start(task.instance)
        await self._note(attempt, task, "told to start")

    async def _stop(self, attempt: Attempt, task: Task) -> None:
        _, driver = await self._mine(attempt, task)
        await driver.stop(task.instance)
        await self._note(attempt, task, "told to stop")

    async def _reset_password(self, attempt: Attempt, task: Task) -> None:
        _, driver = await self._mine(attempt, task)
        await driver.reset_password(task.instance)
        await self._note(attempt, task, "password reset")

    async def _set_parameters(self, attempt: Attempt, task: Task) -> Literal["reloaded", "restart needed"]:
        """What the driver has taken is written down."""
        _, driver = await self._mine(attempt, task)
        wanted = task.parameters or {}
        change = await driver.set_parameters(task.instance, wanted)
        async with self._owned(attempt, task) as (connection, _):
            await self._moving.note_parameters(connection, task.instance, wanted, attempt.at)
            await self._records.note(connection, task.instance, "parameters set", attempt.at, change)
        return change

    async def _resize(self, attempt: Attempt, task: Task) -> None:
        """What the driver has given is written down."""
        _, driver = await self._mine(attempt, task)
        assert task.storage_bytes is not None
        await driver.resize(task.instance, task.storage_bytes)
        async with self._owned(attempt, task) as (connection, _):
            await self._records.ask(connection, "note_storage", task.instance, task.storage_bytes, attempt.at)
            await self._records.note(connection, task.instance, "resized", attempt.at, f"{task.storage_bytes} bytes")

    async def _restore(self, attempt: Attempt, task: Task) -> None:
        """The backup of the task is what the instance holds then."""
        async with self._owned(attempt, task) as (connection, instance):
            before = await self._records.ask(connection, "event", task.instance, _RESTORING, attempt.at)
        driver = self._here.driver(instance.driver)

        async def permit(transaction: str) -> None:
            """A database that is away for a moment is waited for: hours of work hang on this."""
            pauses = iter(_PAUSES)
            while True:
                try:
                    await self._permit(attempt, task, transaction)
                    break
                except (errors.ConnectionLost, errors.DatabaseUnreachable):
                    if (pause := next(pauses, None)) is None:
                        raise
                    await asyncio.sleep(pause)

        permitted = before[0][0].split()[-1] if before else None
        endpoint = _endpoint(await driver.look(task.instance))
        assert task.backup is not None
        await self._restoring.restore(task.backup, instance, driver, endpoint, permit, permitted)
        async with self._owned(attempt, task) as (connection, _):
            await self._records.note(connection, task.instance, "restored", attempt.at, task.backup)

    async def _permit(self, attempt: Attempt, task: Task, transaction: str) -> None:
        """That transaction may be committed. Of the event the last one counts: those before it were not."""
        async with self._owned(attempt, task) as (connection, _):
            await self._records.ask(connection, "forget_event", task.instance, _RESTORING, attempt.at)
            said = f"transaction {transaction}"
            await self._records.note(connection, task.instance, _RESTORING, attempt.at, said)

    async def _withdraw(self, attempt: Attempt, task: Task) -> None:
        instance, _ = await self._mine(attempt, task)
        await self._names.withdraw(instance)
        await self._note(attempt, task, "withdrawn")

    async def _remove(self, attempt: Attempt, task: Task) -> None:
        _, driver = await self._mine(attempt, task)
        await driver.remove(task.instance)
        await self._note(attempt, task, "told to go")

    async def _leave_behind(self, attempt: Attempt, task: Task) -> None:
        """A DNS name that cannot be withdrawn either gives way to whoever is the next to publish it."""
        async with self._owned(attempt, task) as (_, instance):
            pass
        trouble = ""
        try:
            await self._names.withdraw(instance)
        except errors.InterlockError as error:
            trouble = f"Its DNS name may still lead there. {error}"
        async with self._owned(attempt, task) as (connection, _):
            await self._records.note(connection, task.instance, "left behind", attempt.at, trouble)

    async def _move(self, attempt: Attempt, move: Move) -> None:
        async with self._owned(attempt, move.task) as (connection, instance):
            await self._moving.move(connection, instance, move, attempt.at)

    async def _standing(self, attempt: Attempt, task: Task) -> State | None:
        """Where the instance is; None if this task has ended, or another goes on with it."""
        async with self._here.database.transaction() as connection:
            instance = await self._records.read(connection, task.instance)
        return instance.state if instance.working and instance.orchestration == task.orchestration else None

    async def _failure(self, attempt: Attempt, task: Task) -> Failed:
        """How the orchestration ended that this one cleans up after."""
        async with self._here.database.transaction() as connection:
            outcome = await read_outcome(connection, self._here.schema, task.orchestration)
        if outcome is None or (failure := outcome.failure) is None:
            return Failed("outcome_unknown", "It did not come to its end.")
        if outcome.kind == "cancelled":
            return Failed("cancelled", f"It was cancelled: {failure.message or 'no reason'}.")
        return Failed(known(failure.code), _STEP.sub("", failure.message))

    async def _is_ended(self, attempt: Attempt, task: Task) -> bool:
        """Whether nothing works on the instance any more that did before this task."""
        async with self._here.database.transaction() as connection:
            return task.after is None or not await is_unfinished(connection, self._here.schema, task.after)

    async def _mine(self, attempt: Attempt, task: Task) -> tuple[Instance, Driver]:
        async with self._owned(attempt, task) as (_, instance):
            return instance, self._here.driver(instance.driver)

    async def _note(self, attempt: Attempt, task: Task, kind: str) -> None:
        async with self._owned(attempt, task) as (connection, _):
            await self._records.note(connection, task.instance, kind, attempt.at)

    @asynccontextmanager
    async def _owned(self, attempt: Attempt, task: Task) -> AsyncIterator[tuple[Any, Instance]]:
        """A transaction that only the newest attempt of the orchestration that is named commits."""
        async with self._here.database.transaction() as connection:
            await attempt.fence(connection)
            instance = await self._records.lock(connection, task.instance)
            if instance.orchestration != task.orchestration:
                raise errors.InstanceOvertaken(
                    f"{instance.orchestration} works on the instance {instance.id} now: leave it to that one."
                )
            yield connection, instance


def _endpoint(sight: Sight) -> Endpoint:
    if sight.endpoint is None:
        raise errors.DriverUnreachable("The instance has no address yet: wait, or look at its system.")
    return sight.endpoint
