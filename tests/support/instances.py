"""Instances of the driver `local`, with their records and orchestrations, in databases and directories of the test's."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from interlock.durable.replica import AsyncDurable
from interlock.durable.retrying import Retry
from interlock.instances.database import Database
from interlock.instances.dns import Dns
from interlock.instances.dns.none import NoDns
from interlock.instances.drivers.port import Driver
from interlock.instances.orchestrations import Lifecycle
from interlock.instances.records import Instance
from interlock.instances.requests import Instances
from interlock.instances.surroundings import Pace, Surroundings

QUICK = Pace(patience=60, check_every=0.2, unhealthy_after=2, retry=Retry(attempts=3, first=0.1, longest=0.2))


@dataclass
class Plane:
    """A control plane: what may be asked of instances, and a replica that does it."""

    url: str
    instances: Instances
    durable: AsyncDurable
    lifecycle: Lifecycle

    async def ask(self, verb: Callable[..., Awaitable[Instance]], *args: Any, **wishes: Any) -> Instance:
        """A request in a transaction of its own."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            return await verb(connection, *args, **wishes)

    async def create(self, name: str, **wishes: Any) -> Instance:
        return await self.ask(self.instances.create, name, **{"driver": "local"} | wishes)

    async def read(self, id: str) -> Instance:  # noqa: A002
        return await self.ask(self.instances.records.read, id)

    async def done(self, asked: Instance) -> Instance:
        """What has become of it when what was asked for has ended, and its clean-up too."""
        verb = asked.orchestration.rsplit("-", 2)[1]
        await self.durable.handle(getattr(self.lifecycle, verb), asked.orchestration).wait(50)
        return await self.read(asked.id)


@asynccontextmanager
async def control_plane(
    url: str, *drivers: Driver, dns: Dns | None = None, pace: Pace = QUICK, concurrency: int = 8
) -> AsyncIterator[Plane]:
    database = Database(url)
    here = Surroundings(database, "interlock", {one.name: one for one in drivers}, dns or NoDns(), pace)
    lifecycle = Lifecycle(here)
    try:
        async with AsyncDurable(lifecycle.work, url=url, concurrency=concurrency) as durable:
            yield Plane(url, Instances(lifecycle), durable, lifecycle)
    finally:
        await database.close()
