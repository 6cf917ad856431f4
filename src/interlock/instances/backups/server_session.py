"""Interlock's own session in the instance's server, beside the program that dumps or restores.

A killed worker leaves its program running, and a stopped worker may continue later. So the next attempt first ends the
sessions of earlier attempts, which have the same role and the same application name. A session that is opened later is
not permitted to commit; see `restore_proxy`.
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
    """`version` is the server's version, like 17.5."""

    def __init__(self, session: Session, version: str) -> None:
        self._session = session
        self.version = version

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    async def has_committed(self, transaction: str) -> bool:
        """Return True if a transaction that has ended was committed."""
        return bool(await self._session.fetchval(_SQL["outcome"], transaction) == "committed")


@asynccontextmanager
async def exclusive_session(
    driver: Driver, id: str, endpoint: Endpoint, purpose: str, timeout: float
) -> AsyncIterator[ServerSession]:
    """Yields a session in the instance, after all other sessions with the same purpose have ended."""
    async with await connected(driver, id, endpoint, timeout, purpose) as session:
        await _end_other_sessions(session)
        yield ServerSession(session, await session.fetchval(_SQL["version"]))


async def _end_other_sessions(session: Session) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            while await session.fetchval(_SQL["send_away"]):  # noqa: ASYNC110 - the server sends no notification
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise DatabaseUnreachable(
            "In the instance, the sessions of an earlier attempt do not end: look for them in pg_stat_activity."
        ) from None
