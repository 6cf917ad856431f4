"""The session that holds a gate's lock, and does nothing else.

The session is never idle in a transaction and never waits inside SQL, so it never blocks CREATE INDEX CONCURRENTLY.
The lock ends with the session, and the server ends the session after `ttl` without a message. The holder stops
trusting the lock before that.
"""

from typing import Self

from interlock.clock import boottime
from interlock.gate.name import GateName
from interlock.gate.sessions import hold_shared, open_session
from interlock.gate.times import Timing
from interlock.stores.postgres import Session
from interlock.stores.postgres.advisory import HOLDERS
from interlock.stores.postgres.direct_connection import milliseconds
from interlock.stores.postgres.heartbeat_session import HeartbeatSession


class LockSession(HeartbeatSession):
    def __init__(self, session: Session, name: GateName, role: str, pid: int, timing: Timing) -> None:
        super().__init__(session, pid, owner="the gate", trust=timing.trust, heartbeat=timing.heartbeat)
        self.name = name
        self.role = role
        self.timing = timing

    @classmethod
    async def open(
        cls, url: str, *, app: str | None, schema: str | None, timing: Timing, session_pooler: bool = False
    ) -> Self:
        session = await open_session(url, timing, session_pooler=session_pooler)
        try:
            facts = await session.fetchrow(_FACTS)
            assert facts is not None
            name = GateName(facts["database"], schema or facts["schema"] or "public", app)
            return cls(session, name, facts["role"], facts["pid"], timing)
        except BaseException:
            await session.abort()
            raise

    async def announce_waiting(self) -> None:
        await hold_shared(self.session, self.name.waiting)

    async def stop_waiting(self) -> None:
        await self.session.fetchval("SELECT pg_advisory_unlock_shared($1, $2)", *self.name.waiting)

    async def try_acquire(self) -> bool:
        sent_at = boottime()
        row = await self.session.fetchrow(_TRY_ACQUIRE, *self.name.lock, milliseconds(self.timing.ttl))
        assert row is not None
        if row["pid"] != self.pid or row["had_it"]:
            raise self.pooler_error(row["pid"])
        if row["acquired"]:
            self.trust_from(sent_at)
        return bool(row["acquired"])

    async def close(self) -> None:
        await self.session.close()


# The server ends a silent session only if it holds the lock, from the statement on that takes the lock. A session that
# has the lock already would get it a second time: that is how a pooler would let two replicas in.
_TRY_ACQUIRE = f"""
WITH mine AS MATERIALIZED (
    SELECT pg_backend_pid() AS pid, pg_backend_pid() IN ({HOLDERS}) AS had_it
)
SELECT pid, had_it,
       CASE WHEN had_it THEN false ELSE set_config(
           'idle_session_timeout', CASE WHEN pg_try_advisory_lock($1, $2) THEN $3 ELSE '0' END, false
       ) <> '0' END AS acquired
  FROM mine
"""  # noqa: S608 - nothing but constants

# The schema is the first of the search path, as it is written there: the name of a gate must not change because a
# migration creates the schema that "$user" stands for.
_FACTS = """
SELECT pg_backend_pid() AS pid, current_database() AS database, session_user AS role,
       (SELECT btrim(entry, ' "')
          FROM unnest(string_to_array(current_setting('search_path'), ',')) WITH ORDINALITY AS path(entry, place)
         WHERE btrim(entry, ' "') NOT IN ('$user', '')
         ORDER BY place LIMIT 1) AS schema
"""
