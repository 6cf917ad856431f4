"""The steps of orchestrations on instances. `interlock.aggregate.effects` describes which step may write a record.

A driver does not know Interlock's fence: only the driver's own lock of the instance holds back a step that was
overtaken. So `delete` first waits until its predecessor has ended. If a late step still recreates something during the
removal, the removal removes it again.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock import errors
from interlock.aggregate.effects import Changes, Effects
from interlock.aggregate.record import Task, Transition
from interlock.durable.attempt import Attempt
from interlock.durable.declarations import Orchestrations
from interlock.durable.requests import record
from interlock.instances.backups.restoration import LONGEST, BackupRestore
from interlock.instances.client import reach
from interlock.instances.context import InstanceContext
from interlock.instances.drivers.port import Driver, Endpoint, Observation
from interlock.instances.health import HealthWatch
from interlock.instances.names import InstanceNames
from interlock.instances.records import InstanceRecord, InstanceRecords
from interlock.instances.tasks import ObservedState, ProbeResult, Resize, Restoration, SetParameters, WatchHealth

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
"""Errors after which another attempt would fail in the same way."""
_RESTORING = "restoring"
"""The event with the number of the transaction that is about to be committed in the instance's server."""
_PAUSES = (0.5, 1, 2, 4, 8, 15, 30)


class InstanceActivities(Effects[InstanceRecord]):
    def __init__(self, work: Orchestrations, context: InstanceContext, health: HealthWatch) -> None:
        super().__init__(
            work, InstanceRecords(context.schema), context.transactions, replace(context.timing.retry, never=_FINAL)
        )
        self._context = context
        self._health = health
        self._names = InstanceNames(context)
        self._restoring = BackupRestore(context)
        self.check = self.effect("checked", self._check)
        self.provision = self.effect("provisioned", self._provision)
        self.publish = self.effect("published", self._publish)
        self.start = self.effect("starting", self._start)
        self.stop = self.effect("stopping", self._stop)
        self.reset_password = self.effect("password reset", self._reset_password)
        self.set_parameters = self.effect("parameters set", self._set_parameters)
        self.resize = self.effect("resized", self._resize)
        self.withdraw = self.effect("withdrawn", self._withdraw)
        self.remove = self.effect("removing", self._remove)
        self.leave_behind = self.effect("left behind", self._leave_behind)
        self.observe = self.observation(self._observe)
        self.probe = self.activity(self._probe)
        self.restore = self.activity(self._restore, timeout=LONGEST, interruptible=True)

    async def _check(self, instance: InstanceRecord, task: Task) -> None:
        """Raise the errors of the request before anything is created."""
        await self._driver(instance).check(instance.spec)
        await self._names.check(instance)

    async def _provision(self, instance: InstanceRecord, task: Task) -> None:
        await self._driver(instance).provision(instance.spec)

    async def _publish(self, instance: InstanceRecord, task: Task) -> Changes:
        await self._names.publish(instance)
        return Changes(is_event=self._names.are_published(instance))

    async def _start(self, instance: InstanceRecord, task: Task) -> None:
        await self._driver(instance).start(instance.id)

    async def _stop(self, instance: InstanceRecord, task: Task) -> None:
        await self._driver(instance).stop(instance.id)

    async def _reset_password(self, instance: InstanceRecord, task: Task) -> None:
        await self._driver(instance).reset_password(instance.id)

    async def _set_parameters(self, instance: InstanceRecord, task: SetParameters) -> Changes:
        """Returns the driver's result: ``reloaded`` or ``restart needed``."""
        change = await self._driver(instance).set_parameters(instance.id, task.parameters)
        return Changes({"parameters": task.parameters}, change)

    async def _resize(self, instance: InstanceRecord, task: Resize) -> Changes:
        await self._driver(instance).resize(instance.id, task.storage_bytes)
        return Changes({"storage_bytes": task.storage_bytes}, f"{task.storage_bytes} bytes")

    async def _withdraw(self, instance: InstanceRecord, task: Task) -> Changes:
        """Withdraw the DNS name.

        Fails if the driver is missing: otherwise the name would go while the instance stays.
        """
        self._driver(instance)
        await self._names.withdraw(instance)
        return Changes(is_event=self._names.are_published(instance))

    async def _remove(self, instance: InstanceRecord, task: Task) -> None:
        await self._driver(instance).remove(instance.id)

    async def _leave_behind(self, instance: InstanceRecord, task: Task) -> Changes:
        """Withdraw the DNS name. If that fails, the next instance that publishes the name replaces its records."""
        try:
            await self._names.withdraw(instance)
        except errors.InterlockError as error:
            return Changes(detail=f"The DNS name may still lead to the instance. {error}")
        return Changes()

    async def _observe(self, instance: InstanceRecord, task: Task) -> ObservedState:
        observation = await self._driver(instance).observe(instance.id)
        return ObservedState(observation.state, observation.detail, self._context.timing.timeout)

    async def _probe(self, attempt: Attempt, task: Task) -> ProbeResult:
        """Connect to the instance. If the instance answers, record its address."""
        async with self.owned(attempt, task) as (_, instance):
            pass
        driver = self._driver(instance)
        observation = await driver.observe(instance.id)
        endpoint = _endpoint(observation)
        started = time.monotonic()
        try:
            await reach(driver, instance.id, endpoint, self._context.timing.check_timeout)
        except errors.DatabaseUnreachable as error:
            if observation.state != "running":
                raise
            return ProbeResult(str(error), error.code, time.monotonic() - started, self._context.timing.timeout)
        async with self.owned(attempt, task) as (connection, instance):
            await self._records.change(
                connection,
                instance.id,
                attempt.at,
                host=endpoint.host,
                port=endpoint.port,
                owner=endpoint.user,
                database=endpoint.database,
                ca=endpoint.ca,
                version=observation.version or instance.version,
            )
            await self.note(connection, attempt, task, "answered")
        return ProbeResult()

    async def _restore(self, attempt: Attempt, task: Restoration) -> None:
        async with self.owned(attempt, task) as (connection, instance):
            before = await self._records.events.detail(connection, instance.id, _RESTORING, attempt.at)
        driver = self._driver(instance)

        async def permit(transaction: str) -> None:
            """Permit the transaction.

            Retries while the database is unreachable, because hours of work depend on this transaction.
            """
            pauses = iter(_PAUSES)
            while True:
                try:
                    await self._permit(attempt, task, transaction)
                    break
                except (errors.ConnectionLost, errors.DatabaseUnreachable):
                    if (pause := next(pauses, None)) is None:
                        raise
                    await asyncio.sleep(pause)

        permitted = before.split()[-1] if before else None
        endpoint = _endpoint(await driver.observe(instance.id))
        await self._restoring.restore(task.backup, instance, driver, endpoint, permit, permitted)
        async with self.owned(attempt, task) as (connection, _):
            await self.note(connection, attempt, task, "restored", task.backup)

    async def _permit(self, attempt: Attempt, task: Restoration, transaction: str) -> None:
        """Permit that transaction to commit.

        Only the last permission counts, because earlier transactions did not commit.
        """
        async with self.owned(attempt, task) as (connection, instance):
            await self._records.events.forget(connection, instance.id, _RESTORING, attempt.at)
            await self.note(connection, attempt, task, _RESTORING, f"transaction {transaction}")

    async def transition_columns(
        self, connection: Any, instance: InstanceRecord, transition: Transition, attempt: Attempt
    ) -> Mapping[str, Any]:
        """Record a new health watcher after each start, and free the names of an instance that is gone."""
        columns: dict[str, Any] = {} if transition.event is None else {"watcher": None, "health": "unknown"}
        if transition.event == "come_up":
            watcher = f"{transition.task.orchestration}:health"
            columns = {"watcher": watcher, "health": "unknown" if transition.failure else "healthy"}
            await record(
                connection, self._context.schema, self._health.watch, watcher, WatchHealth(instance.id, watcher)
            )
        if transition.gone:
            await self._names.free(connection, instance)
            columns["names_freed_at"] = instance.names_freed_at or attempt.at
        return columns

    def _driver(self, instance: InstanceRecord) -> Driver:
        return self._context.driver(instance.driver)


def _endpoint(observation: Observation) -> Endpoint:
    if observation.endpoint is None:
        raise errors.DriverUnreachable("The instance has no address yet: wait, or check the system that it runs on.")
    return observation.endpoint
