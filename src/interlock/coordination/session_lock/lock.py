"""A lock that is held as long as a database session lives. When its holder dies, the server frees it at once; no other
kind of lock is free sooner.

Each acquisition opens a session of its own and closes it at the end; two acquisitions never share a session. The module
`queue` has the statements of that session. The module `grant` has the code that runs while the lock is held.
"""

import asyncio
import os

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.lease.blocks import Acquisition, OpenBlocks
from interlock.coordination.lease.name import checked_name
from interlock.coordination.lease.times import Duration, checked_timeout, seconds
from interlock.coordination.session_lock.grant import AsyncSessionGrant
from interlock.coordination.session_lock.queue import Connect, QueuedSession, SessionTiming
from interlock.logs import events

log = events(__name__)

_holdings: set[tuple[object, ...]] = set()
"""The locks that this process holds. An entry has the process, the task or thread, the connect function, the schema and
the name."""


class AsyncSessionLock:
    """``async with lock as grant: …``. A session lock is a name with settings. It has no state, so any number of tasks
    may share it.

    `connect` opens a direct session to the database, without a pooler. `schema` separates applications that share a
    database, as it does for leases. If a holder sends nothing for `ttl` seconds, the server ends its session; if a
    holder dies, the server notices it at once.
    """

    def __init__(self, connect: Connect, name: str, *, schema: str = "interlock", ttl: Duration = 10.0) -> None:
        self.name = checked_name(name)
        self._connect = connect
        self._schema = schema
        self._timing = SessionTiming(seconds(ttl))
        self._entered: OpenBlocks[AsyncSessionGrant] = OpenBlocks()

    async def try_acquire(self) -> AsyncSessionGrant | None:
        """Returns the grant if the lock is free and has no waiters; otherwise returns None at once."""
        return await self.try_acquire_as(asyncio.current_task())

    def acquire(self, timeout: Duration | None = None) -> Acquisition[AsyncSessionGrant]:
        """Wait for the lock; waiters get it in order of arrival. Await the result, or enter it: ``async with
        lock.acquire(5)``.

        Raises `SessionLockTimeout` after `timeout` seconds in the queue. The connection attempt has time limits of its
        own. If it fails, or if the connection ends during the wait, the call raises a `StoreError`.
        """
        return Acquisition(self._acquire(timeout))

    async def __aenter__(self) -> AsyncSessionGrant:
        grant = self._entered.add(asyncio.current_task(), await self.acquire())
        return await grant.__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._entered.pop(asyncio.current_task()).__aexit__(kind, error, trace)

    async def try_acquire_as(self, owner: object) -> AsyncSessionGrant | None:
        """Like `try_acquire`, for an owner that is not the current task."""
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
        """Like `acquire`, for an owner that is not the current task."""
        limit = checked_timeout(timeout)
        deadline = None if limit is None else boottime() + limit
        self._refuse_nesting(owner)
        session = await self._open()
        try:
            if not await session.take():
                await self._wait(session, deadline)
            return self._granted(session, owner)
        except BaseException:
            await session.close()
            raise

    async def _acquire(self, timeout: Duration | None) -> AsyncSessionGrant:
        return await self.acquire_as(asyncio.current_task(), timeout)

    async def _open(self) -> QueuedSession:
        return await QueuedSession.open(self._connect, self._schema, self.name, self._timing)

    async def _wait(self, session: QueuedSession, deadline: float | None) -> None:
        log.debug("session_lock.waiting", extra={"lock": self.name, "backend_pid": session.pid})
        left = None if deadline is None else deadline - boottime()
        try:
            if left is not None and left <= 0:
                raise TimeoutError
            async with asyncio.timeout(left):
                await session.wait()
        except TimeoutError:
            log.info("session_lock.not_acquired", extra={"lock": self.name})
            raise errors.SessionLockTimeout(
                f"The session lock {self.name!r} is still taken: wait longer, or look for its holder in "
                "pg_stat_activity, "
                "where the holder's application_name contains the lock's name.",
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
                f"The session lock {self.name!r} is held by this same task or thread, which would wait for itself "
                "without end: pass the grant on instead of acquiring again.",
                name=self.name,
            )

    def _holding(self, owner: object) -> tuple[object, ...]:
        return (os.getpid(), owner, self._connect, self._schema, self.name)
