"""The readiness check: a query with a short timeout, at most once a second; all callers share its result."""

import asyncio

from interlock.clock import boottime
from interlock.errors import StoreError
from interlock.logs import events
from interlock.server.startup import Startup
from interlock.stores.postgres import Session, connect

log = events(__name__)

_FRESH_FOR = 1.0
_TIMEOUT = 0.8  # below one second, the default timeout of a Kubernetes probe


class Readiness:
    """Keeps a session of its own between checks. If the session is lost, the next check opens another."""

    def __init__(self, startup: Startup) -> None:
        self._startup = startup
        self._session: Session | None = None
        self._lock = asyncio.Lock()
        self._checked_at = -_FRESH_FOR
        self._problem: str | None = None

    async def problem(self) -> str | None:
        """Returns None if this replica can serve requests, else the reason, without a password. The result is at most a
        second old."""
        if not self._startup.is_done:
            return "This replica is still starting."
        async with self._lock:
            if boottime() - self._checked_at >= _FRESH_FOR:
                self._record(await self._check())
                self._checked_at = boottime()
            return self._problem

    async def close(self) -> None:
        session, self._session = self._session, None
        if session:
            await session.close()

    async def _check(self) -> str | None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                session = await self._open()
                await session.fetchval("SELECT 1")
        except (StoreError, TimeoutError) as error:
            await self._abort_session()
            return str(error) or f"The database did not answer within {_TIMEOUT:g} s."
        except BaseException:
            await self._abort_session()
            raise
        return None

    async def _open(self) -> Session:
        assert self._startup.url is not None
        if self._session is None or self._session.is_closed:
            self._session = await connect(self._startup.url, application_name="interlock readiness")
        return self._session

    async def _abort_session(self) -> None:
        session, self._session = self._session, None
        if session:
            await session.abort()

    def _record(self, problem: str | None) -> None:
        if problem and not self._problem:
            log.warning("database.silent", extra={"reason": problem})
        if self._problem and not problem:
            log.info("database.answers")
        self._problem = problem
