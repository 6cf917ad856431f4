"""The connections for transactions on records: a few, opened when they are needed, each for one transaction at a time.

A transaction may have to wait for another one's locks; with one connection for all, everybody would wait.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from interlock.errors import RetryTransaction, StatementFailed, StoreError, StoreThrottled
from interlock.stores.postgres import Session, connect

T = TypeVar("T")

_TIMEOUT = 20.0
_ATTEMPTS = 5
_AGAIN = ("40P01", "23505")
"""A deadlock; or somebody else has just written what was seen to be missing: the next attempt finds it."""


class Transactions:
    """`purpose` is what the sessions are called in the server. `patience` is how long a free one is waited for."""

    def __init__(self, url: str, purpose: str, size: int = 5, *, patience: float | None = None) -> None:
        self._url = url
        self._purpose = purpose
        self._free: list[Session] = []
        self._places = asyncio.Semaphore(size)
        self._patience = patience
        self._is_closed = False

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """What `work` makes of a connection, in a transaction of its own; again if that got in another's way."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._transacted(work)
            except RetryTransaction:
                pass
            except StatementFailed as error:
                if error.sqlstate not in _AGAIN:
                    raise
        return await self._transacted(work)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Gives the connection, of the kind that `Attempt.fence` takes."""
        async with self.session() as session, session.transaction(longest_pause=_TIMEOUT):
            yield session.driver_connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Whatever ends badly on it ends it too: nobody else meets what it left behind."""
        async with self._place():
            session = await self._taken()
            try:
                yield session
            except StoreError:
                await session.abort()
                raise
            except Exception:
                self._give_back(session)
                raise
            except BaseException:
                session.hang_up()
                raise
            self._give_back(session)

    async def close(self) -> None:
        self._is_closed = True
        free, self._free = self._free, []
        for session in free:
            await session.close()

    async def _transacted(self, work: Callable[[Any], Awaitable[T]]) -> T:
        async with self.transaction() as connection:
            return await work(connection)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._patience):
                await self._places.acquire()
        except TimeoutError:
            raise StoreThrottled("All connections to the database are in use: try again in a while.") from None
        try:
            yield
        finally:
            self._places.release()

    async def _taken(self) -> Session:
        while self._free:
            if not (session := self._free.pop()).is_closed:
                return session
        name = f"interlock {self._purpose}"
        return await connect(self._url, application_name=name, statement_timeout=_TIMEOUT, prepared=True)

    def _give_back(self, session: Session) -> None:
        if self._is_closed:
            session.hang_up()
        elif not session.is_closed:
            self._free.append(session)
