"""What a replica has once it is ready: instances, the work on them, and what requests are answered with.

It is opened step by step, each of which may refuse the start, and closed in the opposite order: first nobody takes up
work any more, then what is under way ends or is left to others, then the connections go.
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
from interlock.server.instance_context import instance_context, upkeep_schedule
from interlock.server.machine import claim_local, place
from interlock.server.own_key import own_key
from interlock.server.presence import present

log = events(__name__)

_PATIENCE = 10.0
"""Seconds that steps of orchestrations are given to end when this replica stops; others repeat what they cut short."""


class Control:
    """`stopping` is set when the replica has been asked to stop: whoever streams ends then."""

    def __init__(self, settings: Settings, url: str, context: InstanceContext) -> None:
        self.settings = settings
        self.context = context
        self.lifecycle = InstanceLifecycle(context)
        self.instances = Instances(self.lifecycle)
        self.backups = Backups(self.instances)
        self.pool = Transactions(url, "api", timeout=_PATIENCE)
        self.keys = Keys(settings.schema)
        self.locks = AsyncInterlock(url, schema=settings.schema)
        self.durable = AsyncDurable(*self.lifecycle.parts, url=url, schema=settings.schema, patience=_PATIENCE)
        self.upkeep = Upkeep(self.lifecycle, self.locks, upkeep_schedule(settings), [self.backups.clean_up])
        self.stopping = asyncio.Event()

    async def carry_out(self, work: Callable[[Any], Awaitable[R]]) -> R:
        """What was asked for, in a transaction of its own. What that recorded is begun at once."""
        record = await self.pool.transact(work)
        if record.working:
            await self.begin(record.orchestration)
        return record

    async def begin(self, orchestration: str) -> None:
        """If this cannot be done now, any replica does it within seconds."""
        try:
            await self.durable.begin(orchestration)
        except InterlockError as error:
            log.warning("orchestration.begun_later", extra={"orchestration": orchestration, "reason": str(error)})


@asynccontextmanager
async def controlling(
    settings: Settings,
    url: str,
    address: str,
    context: Callable[[Settings, Transactions], InstanceContext] = instance_context,
) -> AsyncIterator[Control]:
    """`url` is the database's, with a schema that is current; `address` is where this replica answers."""
    async with AsyncExitStack() as stack:
        transactions = Transactions(url, "instances", size=2)
        stack.push_async_callback(transactions.close)
        control = Control(settings, url, context(settings, transactions))
        stack.push_async_callback(control.pool.close)
        await _claim_directory(control)
        await _let_this_machine_in(control)
        stack.push_async_callback(control.locks.close)
        await stack.enter_async_context(control.durable)
        await stack.enter_async_context(control.upkeep)
        _be_present(control, stack, address)
        yield control


async def _claim_directory(control: Control) -> None:
    if "local" in control.context.drivers:
        schema, embedded = control.settings.schema, control.settings.database_url is None
        owner = place(control.settings.data_dir.absolute())
        await control.pool.transact(lambda connection: claim_local(connection, schema, owner, embedded=embedded))


async def _let_this_machine_in(control: Control) -> None:
    """The key in the data directory opens. One that was revoked stays so, until its file is removed."""
    directory = control.settings.data_dir.absolute()
    try:
        key = own_key(directory)
    except DataDirectoryUnusable as error:
        if control.settings.database_url is None:
            raise
        log.warning("key.none", extra={"reason": str(error)})  # a container need not have a place to write to
        return
    async with control.pool.session() as session:
        record = await control.keys.register(session, key, f"{directory} of {replica_id()}")
    if record.revoked_at:
        log.warning("key.revoked", extra={"file": str(directory / "api-key"), "id": record.id})


def _be_present(control: Control, stack: AsyncExitStack, address: str) -> None:
    directory: Path = control.settings.data_dir.absolute()
    try:
        stack.enter_context(present(directory, address))
    except OSError as error:
        log.warning("server.not_announced", extra={"directory": str(directory), "reason": error.strerror})
