"""A control plane for instances, in databases and directories of the test's own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from interlock.aggregate.events import RecordEvent
from interlock.aggregate.transactions import Transactions
from interlock.dns import Dns, NoDns
from interlock.durable.declarations import Retry
from interlock.durable.replica import AsyncDurable
from interlock.errors import OrchestrationEnded
from interlock.instances.backups.model import BackupSettings
from interlock.instances.backups.records import BackupRecord
from interlock.instances.backups.requests import Backups
from interlock.instances.context import InstanceContext, InstanceTiming
from interlock.instances.drivers.port import Driver
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.records import HealthCheckRecord, InstanceRecord
from interlock.instances.requests import Instances
from support.postgres import execute
from support.waiting import eventually

QUICK = InstanceTiming(timeout=60, check_every=0.2, unhealthy_after=2, retry=Retry(attempts=3, first=0.05, longest=0.1))


@dataclass
class Plane:
    """Requests for instances, and a replica that works on them."""

    url: str
    instances: Instances
    durable: AsyncDurable
    lifecycle: InstanceLifecycle
    driver: str
    backups: Backups

    async def ask(self, verb: Callable[..., Awaitable[Any]], *args: Any, **wishes: Any) -> Any:
        """Make a request in a transaction of its own."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            return await verb(connection, *args, **wishes)

    async def create(self, name: str, **wishes: Any) -> InstanceRecord:
        asked: InstanceRecord = await self.ask(self.instances.create, name, **{"driver": self.driver} | wishes)
        return asked

    async def created(self, name: str, **wishes: Any) -> InstanceRecord:
        return await self.done(await self.create(name, **wishes))

    async def read(self, id: str) -> InstanceRecord:  # noqa: A002
        found: InstanceRecord = await self.ask(self.instances.records.read, id)
        return found

    async def events(self, id: str) -> list[RecordEvent]:  # noqa: A002
        found: list[RecordEvent] = await self.ask(self.instances.records.events.list, id)
        return found

    async def checks(self, id: str) -> list[HealthCheckRecord]:  # noqa: A002
        found: list[HealthCheckRecord] = await self.ask(self.instances.records.checks, id)
        return found

    async def told(self, verb: Callable[..., Awaitable[InstanceRecord]], *args: Any) -> InstanceRecord:
        """The record after the request has been carried out, or has failed."""
        return await self.done(await self.ask(verb, *args))

    async def done(self, asked: InstanceRecord) -> InstanceRecord:
        """The record when the request has ended, with its clean-up if it needed one."""
        await self._ended(self.lifecycle, asked.orchestration)
        return await self.read(asked.id)

    async def backed_up(self, id: str, format: str = "file") -> BackupRecord:  # noqa: A002
        return await self.backup_done(await self.ask(self.backups.make, id, format))

    async def backup_told(self, verb: Callable[..., Awaitable[BackupRecord]], *args: Any) -> BackupRecord:
        return await self.backup_done(await self.ask(verb, *args))

    async def backup_done(self, asked: BackupRecord) -> BackupRecord:
        await self._ended(self.lifecycle.backups, asked.orchestration)
        return await self.read_backup(asked.id)

    async def read_backup(self, id: str) -> BackupRecord:  # noqa: A002
        found: BackupRecord = await self.ask(self.backups.records.read, id)
        return found

    async def _ended(self, declared: Any, id: str) -> None:  # noqa: A002
        try:
            await self.durable.handle(getattr(declared, id.rsplit("-", 2)[1]), id).wait(50)
        except OrchestrationEnded:
            finished = "SELECT 1 FROM interlock.orchestration WHERE id = %s AND finished_at IS NOT NULL"
            await asyncio.to_thread(eventually, lambda: execute(self.url, finished, f"{id}:cleanup"), within=50)


@asynccontextmanager
async def control_plane(
    url: str,
    driver: Driver,
    *,
    dns: Dns | None = None,
    timing: InstanceTiming = QUICK,
    backups: BackupSettings | None = None,
) -> AsyncIterator[Plane]:
    transactions = Transactions(url, "instances")
    context = InstanceContext(transactions, "interlock", {driver.name: driver}, dns or NoDns(), timing, backups)
    lifecycle = InstanceLifecycle(context)
    try:
        async with AsyncDurable(*lifecycle.parts, url=url) as durable:
            instances = Instances(lifecycle)
            yield Plane(url, instances, durable, lifecycle, driver.name, Backups(instances))
    finally:
        await transactions.close()
