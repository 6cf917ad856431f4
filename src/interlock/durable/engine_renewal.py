"""The renewal of the engine of this process.

An engine keeps the server and the password that it was created with. After a change of the primary it would query a
standby, and after a change of the password it could open no connection. So a new engine replaces it in two cases: when
this replica's own connection had to be reopened, which happens after a change of the primary or a restart; and after
some minutes, if a function provides the password.

Two engines in a process work like two replicas, so no work has to stop: the new engine takes work at once, the old one
takes no more and finishes its running activities. A result that the old engine can no longer acknowledge is attempted
again, and the fence lets one of the attempts write.

Crashes: a crash has the same effects as with any replica. If no new engine can be created, the old one stays, and the
renewal is tried again.
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
    """Replaces an outdated engine. `make` returns a running engine.

    After `lifetime` seconds an engine is always replaced; None sets no such limit.

    A replaced or closed engine has `close_timeout` seconds to finish its running activities.
    """

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
        self.current = await self._create()
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
        """Return True if the database answers. The query also reopens a lost connection of this replica."""
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
        if self._database.connections > self._known_connections:
            return True
        return self._lifetime is not None and boottime() - self._created_at >= self._lifetime

    async def _renew(self) -> None:
        replaced, self.current = self.current, await self._create()
        ending = asyncio.create_task(replaced.close(self._close_timeout))
        self._replaced.add(ending)
        ending.add_done_callback(self._replaced.discard)
        log.info("orchestration.engine_renewed")

    async def _create(self) -> DuroxideEngine:
        # These are read first, so that a change during the creation counts as one.
        connections, created_at = self._database.connections, boottime()
        engine = await self._make()
        self._known_connections, self._created_at = connections, created_at
        return engine
