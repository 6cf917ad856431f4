"""A connection for one purpose: it is opened when first needed, opened again after it broke, and closed when idle."""

import asyncio
from collections.abc import Awaitable, Callable

from interlock.clock import boottime
from interlock.errors import ConfigurationError
from interlock.stores.postgres.forks import closed_in_children
from interlock.stores.postgres.session import Session

Connect = Callable[[str], Awaitable[Session]]


class ManagedConnection:
    """`session()` returns the connection. A caller that gets an error of the connection itself has to call `drop`.

    `on_reconnected` is called when a connection that had broken was replaced.
    """

    def __init__(self, purpose: str, connect: Connect, on_reconnected: Callable[[str], object]) -> None:
        self._purpose = purpose
        self._connect = connect
        self._on_reconnected = on_reconnected
        self._session: Session | None = None
        self._broke = self._shut = False
        self._opening = asyncio.Lock()
        self._used_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._session is not None and not self._session.is_closed

    @property
    def is_free(self) -> bool:
        """True if the connection is open, and no statement is under way."""
        session = self._session
        return session is not None and not session.is_busy and not session.is_closed

    async def session(self, connect: Connect | None = None) -> Session:
        """Returns the open connection. `connect` replaces the usual way to open it, such as with a shorter timeout."""
        self._used_at = boottime()
        session = self._session
        if session is None or session.is_closed:
            async with self._opening:
                if self._session is None or self._session.is_closed:
                    await self._open(connect or self._connect, instead=self._session)
                session = self._session
        assert session is not None
        return session

    async def _open(self, connect: Connect, instead: Session | None) -> None:
        if self._shut:
            raise ConfigurationError("This Interlock was closed: open it again.")
        broke = self._broke or instead is not None
        self._session = closed_in_children(await connect(self._purpose))
        self._broke = False
        if broke:
            self._on_reconnected(self._purpose)

    def drop(self, session: Session) -> None:
        """Hang up, so that the late answer to a statement is not taken for the answer to the next statement."""
        session.hang_up()
        if self._session is session:  # and not a later one
            self._session = None
            self._broke = True

    def hang_up(self) -> None:
        """Hang up. The next call of `session()` opens the connection again."""
        if self._session is not None:
            self.drop(self._session)

    def sever(self) -> None:
        """Close the socket, because the event loop has ended and cannot close the connection any more."""
        session, self._session = self._session, None
        if session is not None:
            session.sever()

    async def close_idle(self, idle_for: float) -> None:
        session = self._session
        if session is not None and not session.is_busy and boottime() - self._used_at >= idle_for:
            await self.close()

    async def close(self) -> None:
        session, self._session = self._session, None
        self._broke = False
        if session is not None:
            await session.close()

    async def shut(self) -> None:
        """Close for good, also a connection that is just being opened. No connection is opened afterwards."""
        self._shut = True
        async with self._opening:
            await self.close()
