"""Whether the database answers right now: asked seldom, shortly, and once for all who want to know."""

import asyncio

from interlock.clock import boottime
from interlock.errors import StoreError
from interlock.logs import events
from interlock.server.startup import Startup
from interlock.stores.postgres import Session, connect

log = events(__name__)

_FRESH_FOR = 1.0
_TIMEOUT = 0.8  # below the second that a Kubernetes probe waits unless it is told otherwise


class Readiness:
    """Keeps a session of its own between the questions; the first one after a loss opens another."""

    def __init__(self, startup: Startup) -> None:
        self._startup = startup
        self._session: Session | None = None
        self._turn = asyncio.Lock()
        self._asked_at = -_FRESH_FOR
        self._problem: str | None = None

    async def problem(self) -> str | None:
        """None if this replica can serve; otherwise why it cannot, without a password. At most a second old."""
        if not self._startup.is_done:
            return "This replica is still starting."
        async with self._turn:
            if boottime() - self._asked_at >= _FRESH_FOR:
                self._note(await self._ask())
                self._asked_at = boottime()
            return self._problem

    async def close(self) -> None:
        session, self._session = self._session, None
        if session:
            await session.close()

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                session = await self._open()
                await session.fetchval("SELECT 1")
        except (StoreError, TimeoutError) as error:
            await self._hang_up()
            return str(error) or f"The database did not answer within {_TIMEOUT:g} s."
        except BaseException:
            await self._hang_up()
            raise
        return None

    async def _open(self) -> Session:
        assert self._startup.url is not None
        if self._session is None or self._session.is_closed:
            self._session = await connect(self._startup.url, application_name="interlock readiness")
        return self._session

    async def _hang_up(self) -> None:
        session, self._session = self._session, None
        if session:
            await session.abort()

    def _note(self, problem: str | None) -> None:
        if problem and not self._problem:
            log.warning("database.silent", extra={"reason": problem})
        if self._problem and not problem:
            log.info("database.answers")
        self._problem = problem
