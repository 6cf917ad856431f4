"""One connection for one purpose: opened when it is first needed, opened again when it broke, closed when idle."""

import asyncio
from collections.abc import Awaitable, Callable

from interlock.clock import boottime
from interlock.stores.postgres.forking import closed_in_children
from interlock.stores.postgres.session import Session

Connect = Callable[[str], Awaitable[Session]]


class Line:
    """`session()` gives the connection. Whoever gets an error of the connection from it calls `drop`."""

    def __init__(self, purpose: str, connect: Connect) -> None:
        self._purpose = purpose
        self._connect = connect
        self._session: Session | None = None
        self._opening = asyncio.Lock()
        self._used_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._session is not None and not self._session.is_closed

    async def session(self) -> Session:
        self._used_at = boottime()
        session = self._session
        if session is None or session.is_closed:
            async with self._opening:
                if self._session is None or self._session.is_closed:
                    self._session = closed_in_children(await self._connect(self._purpose))
                session = self._session
        return session

    def drop(self) -> None:
        """Hang up: what the server makes of a statement that was not answered must not meet the next one."""
        if self._session is not None:
            self._session.hang_up()
            self._session = None

    async def close_idle(self, idle_for: float) -> None:
        if self.is_open and boottime() - self._used_at >= idle_for:
            await self.close()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
