"""The components of a replica that is ready: instances, the orchestrations on them, and the API's access to both.

They are opened one after the other, and an error in any of them prevents the start. They are closed in the opposite
order: first the replica takes up no more work, then its running steps end or other replicas take them over, then its
connections close.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from interlock.aggregate.record import R
from interlock.aggregate.transactions import Transactions
from interlock.config import Settings
from interlock.coordination.root import AsyncInterlock
from interlock.durable.replica import AsyncDurable
from interlock.errors import DataDirectoryUnusable, InterlockError
from interlock.identity import replica_id
from interlock.instances.backups.requests import Backups
from interlock.instances.context import InstanceContext
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.requests import Instances
from interlock.instances.upkeep.schedule import Upkeep
from interlock.keys.records import Keys
from interlock.logs import events
from interlock.server.data_directory import KEY_FILE, local_api_key
from interlock.server.instance_context import instance_context, upkeep_schedule
from interlock.server.local_driver_claim import claim_local_driver, local_owner
from interlock.server.replica_file import announced

log = events(__name__)

_STOP_TIMEOUT = 10.0
"""Seconds for the running steps of orchestrations to end when this replica stops. Another replica repeats a step that
is interrupted then."""


class Control:
    """`stopping` is set when the replica is asked to stop. It ends the answers that are being streamed."""

    def __init__(self, settings: Settings, url: str, context: InstanceContext) -> None:
        self.settings = settings
        self.context = context
        self.lifecycle = InstanceLifecycle(context)
        self.instances = Instances(self.lifecycle)
        self.backups = Backups(self.instances)
        self.pool = Transactions(url, "api", timeout=_STOP_TIMEOUT)
        self.keys = Keys(settings.schema)
        self.locks = AsyncInterlock(url, schema=settings.schema)
        self.durable = AsyncDurable(*self.lifecycle.parts, url=url, schema=settings.schema, patience=_STOP_TIMEOUT)
        self.upkeep = Upkeep(self.lifecycle, self.locks, upkeep_schedule(settings), [self.backups.clean_up])
        self.stopping = asyncio.Event()

    async def carry_out(self, work: Callable[[Any], Awaitable[R]]) -> R:
        """Run `work` in a transaction, and start the orchestration that `work` recorded."""
        record = await self.pool.transact(work)
        if record.working:
            await self.begin(record.orchestration)
        return record

    async def running_instances(self) -> list[str]:
        """Returns the names of running instances of the driver local: they go on running without this replica."""
        records = self.instances.records
        page = await self.pool.transact(
            lambda connection: records.page(connection, sort="name", states=["running"], limit=200)
        )
        return [instance.name for instance in page.items if instance.driver == "local"]

    async def begin(self, orchestration: str) -> None:
        """Start a recorded orchestration. If that fails now, any replica starts the orchestration within seconds."""
        try:
            await self.durable.begin(orchestration)
        except InterlockError as error:
            log.warning("orchestration.begun_later", extra={"orchestration": orchestration, "reason": str(error)})


@asynccontextmanager
async def open_control(
    settings: Settings,
    url: str,
    address: str,
    context: Callable[[Settings, Transactions], InstanceContext] = instance_context,
) -> AsyncIterator[Control]:
    """The schema of the database at `url` has to be current. `address` is the URL of this replica's API."""
    async with AsyncExitStack() as stack:
        transactions = Transactions(url, "instances", size=2)
        stack.push_async_callback(transactions.close)
        control = Control(settings, url, context(settings, transactions))
        stack.push_async_callback(control.pool.close)
        await _claim_directory(control)
        await _register_local_key(control)
        stack.push_async_callback(control.locks.close)
        await stack.enter_async_context(control.durable)
        await stack.enter_async_context(control.upkeep)
        _announce(control, stack, address)
        yield control


async def _claim_directory(control: Control) -> None:
    if "local" in control.context.drivers:
        schema, embedded = control.settings.schema, control.settings.database_url is None
        owner = local_owner(control.settings.data_dir.absolute())
        await control.pool.transact(lambda connection: claim_local_driver(connection, schema, owner, embedded=embedded))


async def _register_local_key(control: Control) -> None:
    """Register the key in the data directory. A revoked key stays revoked: remove its file to get another key."""
    directory = control.settings.data_dir.absolute()
    try:
        key = local_api_key(directory)
    except DataDirectoryUnusable as error:
        if control.settings.database_url is None:
            raise
        log.warning("key.none", extra={"reason": str(error)})  # a container may have no directory that it can write to
        return
    async with control.pool.session() as session:
        record = await control.keys.register(session, key, f"{directory} of {replica_id()}")
    if record.revoked_at:
        log.warning("key.revoked", extra={"file": str(directory / KEY_FILE), "id": record.id})


def _announce(control: Control, stack: AsyncExitStack, address: str) -> None:
    directory: Path = control.settings.data_dir.absolute()
    try:
        stack.enter_context(announced(directory, address))
    except OSError as error:
        log.warning("server.not_announced", extra={"directory": str(directory), "reason": error.strerror})
