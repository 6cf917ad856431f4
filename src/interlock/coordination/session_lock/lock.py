"""A lock that is held as long as a database session lives: the quickest to be free again when its holder dies.

Each acquisition opens a session of its own, and closes it at its end; two acquisitions never share one. What happens on
that session is in `session_line`, what happens while the lock is held in `session_grant`.
"""

import asyncio
import os

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.lease.blocks import Acquiring, OpenBlocks
from interlock.coordination.lease.name import checked_name
from interlock.coordination.lease.times import Duration, checked_timeout, seconds
from interlock.coordination.session_lock.grant import AsyncSessionGrant
from interlock.coordination.session_lock.queue import Connect, QueuedSession, SessionTiming
from interlock.logs import events

log = events(__name__)

_holdings: set[tuple[object, ...]] = set()
"""Who holds what in this process: process, task or thread, way to the database, schema, name."""


class AsyncSessionLock:
    """``async with lock as grant: …``; a name and its settings, without state: any number of tasks may share it.

    `connect` opens a session to the database, directly. `schema` tells apart those who share a database, as it does for
    leases. `ttl` is how long the server waits for a holder that fell silent; one that died is noticed at once.
    """

    def __init__(self, connect: Connect, name: str, *, schema: str = "interlock", ttl: Duration = 10.0) -> None:
        self.name = checked_name(name)
        self._connect = connect
        self._schema = schema
        self._timing = SessionTiming(seconds(ttl))
        self._entered: OpenBlocks[AsyncSessionGrant] = OpenBlocks()

    async def try_acquire(self) -> AsyncSessionGrant | None:
        """The lock, if it is free and nobody waits for it; otherwise None, at once."""
        return await self.try_acquire_as(asyncio.current_task())

    def acquire(self, timeout: Duration | None = None) -> Acquiring[AsyncSessionGrant]:
        """Wait for the lock, first come, first served. To be awaited, or entered: ``async with lock.acquire(5)``.

        After `timeout` seconds in line it raises `SessionLockTimeout`. Connecting has time limits of its own; they, and
        a connection that ends while we wait, are a `StoreError`.
        """
        return Acquiring(self._acquire(timeout))

    async def __aenter__(self) -> AsyncSessionGrant:
        grant = self._entered.add(asyncio.current_task(), await self.acquire())
        return await grant.__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._entered.pop(asyncio.current_task()).__aexit__(kind, error, trace)

    async def try_acquire_as(self, owner: object) -> AsyncSessionGrant | None:
        """For a caller that is not a task."""
        session = await self._open()
        try:
            if await session.take():
                return self._granted(session, owner)
        except BaseException:
            await session.close()
            raise
        await session.close()
        return None

    async def acquire_as(self, owner: object, timeout: Duration | None = None) -> AsyncSessionGrant:
        """For a caller that is not a task."""
        patience = checked_timeout(timeout)
        ends_at = None if patience is None else boottime() + patience
        self._refuse_nesting(owner)
        session = await self._open()
        try:
            if not await session.take():
                await self._wait(session, ends_at)
            return self._granted(session, owner)
        except BaseException:
            await session.close()
            raise

    async def _acquire(self, timeout: Duration | None) -> AsyncSessionGrant:
        return await self.acquire_as(asyncio.current_task(), timeout)

    async def _open(self) -> QueuedSession:
        return await QueuedSession.open(self._connect, self._schema, self.name, self._timing)

    async def _wait(self, session: QueuedSession, ends_at: float | None) -> None:
        log.debug("session_lock.waiting", extra={"lock": self.name, "backend_pid": session.pid})
        left = None if ends_at is None else ends_at - boottime()
        try:
            if left is not None and left <= 0:
                raise TimeoutError
            async with asyncio.timeout(left):
                await session.wait()
        except TimeoutError:
            log.info("session_lock.not_acquired", extra={"lock": self.name})
            raise errors.SessionLockTimeout(
                f"The session lock {self.name!r} is still taken: wait longer, or find its holder in pg_stat_activity, "
                "where its application_name has the lock's name.",
                name=self.name,
            ) from None

    def _granted(self, session: QueuedSession, owner: object) -> AsyncSessionGrant:
        holding = self._holding(owner)
        _holdings.add(holding)
        log.debug("session_lock.acquired", extra={"lock": self.name, "backend_pid": session.pid})
        return AsyncSessionGrant(self.name, session, lambda: _holdings.discard(holding))

    def _refuse_nesting(self, owner: object) -> None:
        if self._holding(owner) in _holdings:
            raise errors.SessionLockNested(
                f"The session lock {self.name!r} is held by this very task or thread, which would wait for itself for "
                "ever: pass the grant on instead of acquiring again.",
                name=self.name,
            )

    def _holding(self, owner: object) -> tuple[object, ...]:
        return (os.getpid(), owner, self._connect, self._schema, self.name)
