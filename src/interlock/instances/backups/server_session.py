"""The session of ours beside a program that dumps or restores: what it says of the server, and who is sent away.

A worker that was killed leaves its program running, and one that was stopped goes on later. So whoever comes next ends
the sessions of those before, which it knows by their name; they are its own role's. What begins one later still is not
permitted to commit: see `relay`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from interlock.errors import DatabaseUnreachable
from interlock.instances.client import connected
from interlock.instances.drivers.port import Driver, Endpoint
from interlock.stores.postgres import Session
from interlock.stores.statements import statements

_SQL = statements("interlock.instances.backups", "server.sql")
_PAUSE = 0.1
_PATIENCE = 60.0


class ServerSession:
    """`version` as 17.5."""

    def __init__(self, session: Session, version: str) -> None:
        self._session = session
        self.version = version

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    async def has_committed(self, transaction: str) -> bool:
        """One that has ended."""
        return bool(await self._session.fetchval(_SQL["outcome"], transaction) == "committed")


@asynccontextmanager
async def exclusive_session(
    driver: Driver, id: str, endpoint: Endpoint, purpose: str, timeout: float
) -> AsyncIterator[ServerSession]:
    """Nobody else is at it under that purpose."""
    async with await connected(driver, id, endpoint, timeout, purpose) as session:
        await _end_other_sessions(session)
        yield ServerSession(session, await session.fetchval(_SQL["version"]))


async def _end_other_sessions(session: Session) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            while await session.fetchval(_SQL["send_away"]):  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise DatabaseUnreachable(
            "What an earlier attempt began in the instance does not end: look at its pg_stat_activity."
        ) from None
