"""The session that holds a gate's lock.

A connection of its own, direct and in autocommit: it never sits in a transaction and never waits inside SQL, so it
never holds up CREATE INDEX CONCURRENTLY. The lock is the server's: it ends with the session, and the server ends the
session when it hears nothing for `ttl`. The holder's trust ends before that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Self

from interlock import errors
from interlock.clock import boottime
from interlock.gate.name import PRESENT, GateName
from interlock.gate.timing import Timing
from interlock.identity import replica_id
from interlock.stores.postgres import Session, connect

log = logging.getLogger(__name__)


class LockSession:
    """`trusted_until` is the moment on `boottime()` up to which the lock is certainly held; it moves with each beat."""

    def __init__(self, session: Session, name: GateName, role: str, pid: int, timing: Timing) -> None:
        self.session = session
        self.name = name
        self.role = role
        self.pid = pid
        self._timing = timing
        self.trusted_until = 0.0

    @classmethod
    async def open(
        cls, url: str, *, app: str | None, schema: str | None, timing: Timing, session_pooler: bool = False
    ) -> Self:
        """Connect, refuse what cannot hold a lock, and see to it that the session cannot outlive a silent holder."""
        session = await connect(url, application_name=f"interlock gate {replica_id()}")
        try:
            facts = await session.fetchrow(_FACTS)
            assert facts is not None
            _refuse_pooler(session, facts["pid"], session_pooler)
            if facts["standby"]:
                raise errors.NotPrimary(f"{session.shown_url} is a standby: name the primary in the URL.")
            await session.fetchval("SELECT pg_try_advisory_lock_shared($1, $2)", *PRESENT)
            for setting, value in _settings(timing).items():
                await session.fetchval("SELECT set_config($1, $2, false)", setting, value)
        except BaseException:
            session.abort()
            raise
        name = GateName(facts["database"], schema or facts["schema"] or "public", app)
        return cls(session, name, facts["role"], facts["pid"], timing)

    async def announce_waiting(self) -> None:
        await self.session.fetchval("SELECT pg_try_advisory_lock_shared($1, $2)", *self.name.waiting)

    async def stop_waiting(self) -> None:
        await self.session.fetchval("SELECT pg_advisory_unlock_shared($1, $2)", *self.name.waiting)

    async def try_acquire(self) -> bool:
        sent_at = boottime()
        held: bool = await self.session.fetchval(_TRY_ACQUIRE, *self.name.lock, f"{self._timing.ttl * 1000:.0f}")
        if held:
            self.trusted_until = sent_at + self._timing.trust
        return held

    async def beat(self) -> None:
        """Show the server that we live, and ourselves that the session is still the one that took the lock."""
        sent_at = boottime()
        pid = await self.session.fetchval("SELECT pg_backend_pid()")
        if pid != self.pid:
            raise errors.ConnectionLost(
                f"A pooler moved the gate's session from server process {self.pid} to {pid}: "
                "it is not in session mode, use a direct connection."
            )
        self.trusted_until = sent_at + self._timing.trust

    async def keep(self, on_beat: Callable[[], Awaitable[None]]) -> str:
        """Beat until the lock is lost; the answer says why. A session that ends is noticed at once."""
        ended = asyncio.Event()
        self.session.on_end(ended.set)
        while not await _happens(ended, within=self._timing.heartbeat):
            try:
                async with asyncio.timeout(self.trusted_until - boottime()):
                    await self.beat()
                async with asyncio.timeout(self.trusted_until - boottime()):
                    await on_beat()
            except TimeoutError:
                return "no heartbeat was answered in time"
            except errors.StoreError as error:
                return str(error)
        return "the server ended the gate's session"

    async def close(self) -> None:
        await self.session.close()


async def _happens(event: asyncio.Event, *, within: float) -> bool:
    try:
        async with asyncio.timeout(within):
            return await event.wait()
    except TimeoutError:
        return False


def _refuse_pooler(session: Session, pid: int, session_pooler: bool) -> None:
    if session.announced_pid == pid or session_pooler:
        return
    raise errors.PoolerRefused(
        f"{session.shown_url} is a connection pooler, where two replicas could both hold the gate: give the gate "
        "the database's own address (--database), or state a pooler in session mode with --session-pooler."
    )


def _settings(timing: Timing) -> dict[str, str]:
    """What the lock's session needs, whatever the role's or the database's defaults are."""
    ttl = f"{timing.ttl * 1000:.0f}"
    return {
        "tcp_user_timeout": ttl,
        "tcp_keepalives_idle": f"{max(1, timing.ttl / 2):.0f}",
        "tcp_keepalives_interval": f"{max(1, timing.ttl / 6):.0f}",
        "tcp_keepalives_count": "3",
        "statement_timeout": "0",
        "lock_timeout": "500",
        "default_transaction_read_only": "off",
    }


# Only a session that holds the lock is ended when it falls silent, and from the very statement that takes the lock.
_TRY_ACQUIRE = """
SELECT set_config('idle_session_timeout', CASE WHEN pg_try_advisory_lock($1, $2) THEN $3 ELSE '0' END, false) <> '0'
"""

# The schema is the search path's first, as it is written there: a gate's name must not change because a migration
# creates the schema that "$user" stands for.
_FACTS = """
SELECT pg_backend_pid() AS pid, current_database() AS database, session_user AS role, pg_is_in_recovery() AS standby,
       (SELECT btrim(entry, ' "')
          FROM unnest(string_to_array(current_setting('search_path'), ',')) WITH ORDINALITY AS path(entry, place)
         WHERE btrim(entry, ' "') NOT IN ('$user', '')
         ORDER BY place LIMIT 1) AS schema
"""
