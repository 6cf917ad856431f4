"""The engine of this process, and its successors.

An engine is given one server and one password, and keeps to them. After a change of the primary it would go on asking a
standby; after a change of the password it could open no connection any more. So it is replaced by a new one: whenever
our own connection had to be opened anew, for that is how a change of the primary shows, or a restart; and after some
minutes, where passwords come from a function.

Two engines in a process are as two replicas, so nothing has to stop: the new one takes work from its first moment, the
old one takes no more and ends what it is at. What that cannot acknowledge any more is attempted again, and the fence
lets one of the attempts write.

What a crash leaves behind: what that of any replica does. If no new engine can be made, the old one is kept, and it is
tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from interlock.clock import boottime
from interlock.durable.database import EngineDatabase
from interlock.durable.engine import DuroxideEngine
from interlock.logs import events

log = events(__name__)

_CHECK_EVERY = 2.0


class EngineRenewal:
    """`make` gives an engine that takes part. `lasts`: after so many seconds it is replaced in any case. `patience`:
    how long one that is replaced, or closed, may take to end what it is at."""

    def __init__(
        self,
        make: Callable[[], Awaitable[DuroxideEngine]],
        database: EngineDatabase,
        *,
        lifetime: float | None,
        close_timeout: float,
    ) -> None:
        self._make = make
        self._database = database
        self._lifetime = lifetime
        self._close_timeout = close_timeout
        self._replaced: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self.current = await self._made()
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
        await asyncio.gather(self.current.close(self._close_timeout), *self._replaced)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            if await self._is_reached() and self._is_outdated():
                await self._try_to_renew()

    async def _is_reached(self) -> bool:
        """Which opens our own connection anew, if it was lost."""
        try:
            await self._database.value("clock")
        except Exception as error:
            log.warning("orchestration.database_away", extra={"why": str(error)})
            return False
        return True

    async def _try_to_renew(self) -> None:
        try:
            await self._renew()
        except Exception as error:
            log.warning("orchestration.engine_kept", extra={"why": str(error)})

    def _is_outdated(self) -> bool:
        if self._database.connections > self._known:
            return True
        return self._lifetime is not None and boottime() - self._made_at >= self._lifetime

    async def _renew(self) -> None:
        replaced, self.current = self.current, await self._made()
        ending = asyncio.create_task(replaced.close(self._close_timeout))
        self._replaced.add(ending)
        ending.add_done_callback(self._replaced.discard)
        log.info("orchestration.engine_renewed")

    async def _made(self) -> DuroxideEngine:
        known, made_at = self._database.connections, boottime()  # before: what changes meanwhile counts as a change
        engine = await self._make()
        self._known, self._made_at = known, made_at
        return engine
