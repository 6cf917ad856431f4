"""The connection on which the effects of activities are written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from interlock import errors
from interlock.stores.postgres import Session, connect
from interlock.stores.postgres.line import Line

_BROKEN = (errors.ConnectionLost, errors.DatabaseUnreachable)
_TIMEOUT = 20.0


class Database:
    def __init__(self, url: str) -> None:
        self._url = url
        self._line = Line("instances", self._connect, lambda purpose: None)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Gives the connection, of the kind that `Attempt.fence` takes. It is shared: nothing else is waited for."""
        session = await self._line.session()
        try:
            async with session.transaction(longest_pause=_TIMEOUT):
                yield session.driver_connection
        except _BROKEN:
            self._line.drop(session)
            raise

    async def close(self) -> None:
        await self._line.shut()

    async def _connect(self, purpose: str) -> Session:
        return await connect(
            self._url, application_name=f"interlock {purpose}", statement_timeout=_TIMEOUT, prepared=True
        )
