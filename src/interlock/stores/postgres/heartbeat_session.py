"""A session that keeps its locks by heartbeats, and the time for which the locks may be trusted.

The server ends a session that holds locks when the client is silent for too long (`idle_session_timeout`), and releases
its locks. So each answered heartbeat proves that the session held its locks. Trust in the locks is counted from before
the heartbeat was sent, and ends before the server would end the session.
"""

import asyncio
from collections.abc import Awaitable, Callable

from interlock import errors
from interlock.clock import boottime
from interlock.stores.postgres.session import Session


class HeartbeatSession:
    """`trusted_until` is the time on `boottime()` until which the session certainly holds its locks.

    Each heartbeat extends `trusted_until`. `pid` is the server process that took the locks. `owner` names the user of
    the session in messages.
    """

    def __init__(self, session: Session, pid: int, *, owner: str, trust: float, heartbeat: float) -> None:
        self.session = session
        self.pid = pid
        self.trusted_until = 0.0
        self._owner = owner
        self._trust = trust
        self._heartbeat = heartbeat

    def trust_from(self, sent_at: float) -> None:
        """Trust the locks that were taken, or proved to be held, by a statement that was sent at `sent_at`."""
        self.trusted_until = sent_at + self._trust

    async def beat(self) -> None:
        """Show the server that this process lives, and check that the same server process still serves the session.

        The heartbeat is one message. A statement with arguments takes two: between these two, the server measures no
        silence, and would wait without limit for a stopped process. Trust that has ended does not come back.
        """
        sent_at = boottime()
        answer = await self.session.execute(f"SELECT WHERE pg_backend_pid() = {self.pid}")
        if answer != "SELECT 1":
            raise self.pooler_error()
        if boottime() >= self.trusted_until:
            raise TimeoutError
        self.trust_from(sent_at)

    async def run_heartbeats(self, on_beat: Callable[[], Awaitable[None]] | None = None) -> str:
        """Send heartbeats until the locks are lost, and return the reason. A session that ends is noticed at once."""
        ended = asyncio.Event()
        self.session.on_end(ended.set)
        while not (self.session.is_closed or await _is_set(ended, within=self._heartbeat)):
            try:
                async with asyncio.timeout(self.trusted_until - boottime()):
                    await self.beat()
                if on_beat:
                    await on_beat()
            except TimeoutError:
                return "no heartbeat was answered in time"
            except errors.StoreError as error:
                return str(error)
        return f"the server ended {self._owner}'s session"

    def pooler_error(self, pid: int | None = None) -> errors.PoolerRefused:
        to = f", {pid}" if pid else ""
        return errors.PoolerRefused(
            f"A pooler moved {self._owner}'s session between server processes ({self.pid}{to}), or shares the session: "
            "the pooler is not in session mode, so use a direct connection."
        )


async def _is_set(event: asyncio.Event, *, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False
