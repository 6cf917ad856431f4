"""A session whose locks are kept by heartbeats, and how long they may be trusted.

The server ends a session that holds locks when it hears nothing from it for a while (`idle_session_timeout`), and its
locks with it. So each heartbeat that is answered proves that they were held, and trust in them is counted from before
it was sent. It ends before the server would end the session.
"""

import asyncio
from collections.abc import Awaitable, Callable

from interlock import errors
from interlock.clock import boottime
from interlock.stores.postgres.session import Session


class KeptSession:
    """`trusted_until` is the moment on `boottime()` up to which its locks are certainly held; it moves with each beat.

    `pid` is the server process that took them. `of` is whose session it is, in messages.
    """

    def __init__(self, session: Session, pid: int, *, of: str, trust: float, heartbeat: float) -> None:
        self.session = session
        self.pid = pid
        self.trusted_until = 0.0
        self._of = of
        self._trust = trust
        self._heartbeat = heartbeat

    def took(self, sent_at: float) -> None:
        """It has taken its locks with a statement that was sent then."""
        self.trusted_until = sent_at + self._trust

    async def beat(self) -> None:
        """Show the server that we live, and ourselves that the session is still the one that took the locks.

        One message, and not the two of a statement with arguments: the server counts no silence between those, so it
        would wait for ever for a process that was stopped there. Trust that has run out does not come back.
        """
        sent_at = boottime()
        answer = await self.session.execute(f"SELECT WHERE pg_backend_pid() = {self.pid}")
        if answer != "SELECT 1":
            raise self.moved()
        if boottime() >= self.trusted_until:
            raise TimeoutError
        self.took(sent_at)

    async def keep(self, on_beat: Callable[[], Awaitable[None]] | None = None) -> str:
        """Beat until the locks are lost; the answer says why. A session that ends is noticed at once."""
        ended = asyncio.Event()
        self.session.on_end(ended.set)
        while not (self.session.is_closed or await _happens(ended, within=self._heartbeat)):
            try:
                async with asyncio.timeout(self.trusted_until - boottime()):
                    await self.beat()
                if on_beat:
                    await on_beat()
            except TimeoutError:
                return "no heartbeat was answered in time"
            except errors.StoreError as error:
                return str(error)
        return f"the server ended {self._of}'s session"

    def moved(self, pid: int | None = None) -> errors.PoolerRefused:
        to = f", {pid}" if pid else ""
        return errors.PoolerRefused(
            f"A pooler moved {self._of}'s session between server processes ({self.pid}{to}), or shares it: "
            "it is not in session mode, so use a direct connection."
        )


async def _happens(event: asyncio.Event, *, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False
