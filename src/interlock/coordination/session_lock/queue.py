"""The session that holds a session lock, or waits for it in a queue.

The server alone decides which session holds the lock. The lock is an advisory lock: one session at a time holds it, and
it ends with that session. The queue only decides which session asks next, so a mistake in the queue cannot give the
lock to two sessions.

A session that finds the lock taken draws a number. The number is an advisory lock too, and so is the mark that the
session is in this queue: both are visible in ``pg_locks`` and end with their session. The session then waits for the
number directly before its own; the first session in the queue waits for the lock itself. Each wait ends after `_STEP`,
and its transaction ends with it, because CREATE INDEX CONCURRENTLY and VACUUM would otherwise wait for that
transaction. The session keeps its position between two waits, because no other session waits for the same number.

From the first lock on, every statement is one message, and its answer is the number of rows. A statement with arguments
would be two messages; a process could be suspended between them, and the server would not count that as silence.

A crash between any two statements leaves a session that the server ends: at once if the socket is closed, otherwise
after a ttl without a message. The sessions behind it in the queue then move up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from interlock import errors
from interlock.clock import boottime
from interlock.identity import replica_id
from interlock.stores.postgres import AdvisoryKey, Session
from interlock.stores.postgres.direct_connection import (
    configure,
    is_pooled,
    milliseconds,
    noticing_a_dead_network,
    require_primary,
)
from interlock.stores.postgres.forks import closed_in_children
from interlock.stores.postgres.heartbeat_session import HeartbeatSession

Connect = Callable[[], Awaitable[Session]]

_STEP = 0.4
_SHORTEST_STEP = 0.05
_CLOSE_TIMEOUT = 1.0


@dataclass(frozen=True)
class SessionTiming:
    """The times of a session lock, in seconds. The server ends a holder's session `ttl` after its last heartbeat. The
    holder stops trusting the lock before that."""

    ttl: float

    def __post_init__(self) -> None:
        if not 2 <= self.ttl <= 3600:
            raise errors.ConfigurationError(
                f"A session lock's ttl of {self.ttl:g} s cannot work: use 2 s (heartbeats need that) to 3600 s."
            )

    @property
    def trust(self) -> float:
        """The holder trusts the lock for this many seconds after each heartbeat. Without another heartbeat, it has the
        rest of the ttl to stop its work."""
        return self.ttl * 3 / 4

    @property
    def heartbeat(self) -> float:
        return self.trust / 4


class QueuedSession(HeartbeatSession):
    """The session of one acquisition. It is closed when the acquisition ends."""

    def __init__(self, session: Session, schema: str, name: str, timing: SessionTiming) -> None:
        super().__init__(
            session,
            session.announced_pid,
            owner=f"the session lock {name!r}",
            trust=timing.trust,
            heartbeat=timing.heartbeat,
        )
        self._timing = timing
        self._statements = _Statements(schema, name)

    @classmethod
    async def open(cls, connect: Connect, schema: str, name: str, timing: SessionTiming) -> Self:
        session = closed_in_children(await connect())
        try:
            await _refuse_pooler(session)
            await require_primary(session)
            await configure(session, await _session_settings(session, name, timing))
        except BaseException:
            await session.abort()
            raise
        return cls(session, schema, name, timing)

    async def take(self) -> bool:
        """Take the lock if it is free and the queue is empty. Returns True if this session got the lock."""
        return await self._took(self._statements.take)

    async def wait(self) -> None:
        """Wait in the queue until this session has the lock."""
        await self._execute(self._statements.join)
        while not await self._took(self._statements.step):
            pass

    async def wait_out_ttl(self) -> None:
        """Keep the session for the rest of the ttl, after the trust in the lock has ended.

        During this time the lock stays taken, and the holder, which was notified of the loss, stops its work.
        """
        if not self.session.is_closed:
            await asyncio.sleep(self._timing.ttl - self._timing.trust)

    async def unlock(self) -> None:
        await self._execute("SELECT pg_advisory_unlock_all()")

    async def close(self) -> None:
        """Close the session, and cancel a statement that still runs, so that the server process is gone when this
        method returns."""
        await self.session.close(_CLOSE_TIMEOUT)

    async def _took(self, statement: str) -> bool:
        sent_at = boottime()
        if await self._execute(statement) != "SELECT 1":
            return False
        self.trust_from(sent_at)
        return True

    async def _execute(self, statement: str) -> str:
        return await self.session.execute(statement, timeout=self._timing.trust)


async def _refuse_pooler(session: Session) -> None:
    if await is_pooled(session):
        raise errors.PoolerRefused(
            f"{session.shown_url} is a connection pooler, through which two sessions could hold one session lock: "
            "give Interlock the "
            "database's own address, or take a lease instead, which works through a pooler."
        )


async def _session_settings(session: Session, name: str, timing: SessionTiming) -> dict[str, str]:
    """Return the session's settings. Each wait is shorter than the server's deadlock_timeout; otherwise the server
    would log it as a long wait."""
    deadlock_timeout = float(await session.fetchval(_DEADLOCK_TIMEOUT)) / 1000
    step = min(_STEP, max(_SHORTEST_STEP, deadlock_timeout / 2))
    return noticing_a_dead_network(timing.ttl) | {
        "application_name": f"interlock session lock {name} {replica_id()}"[:63],
        "idle_session_timeout": milliseconds(timing.ttl),
        "lock_timeout": milliseconds(step),
        "statement_timeout": "0",
    }


_DEADLOCK_TIMEOUT = "SELECT setting FROM pg_settings WHERE name = 'deadlock_timeout'"


class _Statements:
    """The statements of one lock, with its keys in their text: a statement with arguments would be more than one
    message."""

    def __init__(self, schema: str, name: str) -> None:
        lock = AdvisoryKey.of("interlock session lock", schema, name)
        queue = AdvisoryKey.of("interlock session lock line", schema, name)
        keys = {"lock": lock, "queue": queue, "queue_shown": queue.shown, "numbers": _NUMBERS.first}
        before = _BEFORE.format(**keys, numbers_shown=_NUMBERS.first & 0xFFFFFFFF)
        self.take = _TAKE.format(**keys)
        self.join = _JOIN.format(**keys, before=before)
        self.step = _WAIT.format(**keys, before=before)


_NUMBERS = AdvisoryKey.of("interlock session lock numbers")
"""The key of the numbers: only its first half is used, and the number takes the place of the second half. A number
belongs to the queue whose mark the same session holds."""

_ADVISORY = """pg_locks
     WHERE locktype = 'advisory' AND granted AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""

_TAKE = f"""
SELECT WHERE CASE
    WHEN EXISTS (SELECT FROM {_ADVISORY} AND (classid::bigint, objid::bigint) = ({{queue_shown}})) THEN false
    ELSE pg_try_advisory_lock({{lock}}) END
"""  # noqa: S608 - nothing but constants

# A number is the time in milliseconds, modulo 2^31; half of that range is twelve days. A session that draws one in the
# same millisecond gets the next.
_JOIN = """
SELECT pg_advisory_lock_shared({queue});
SELECT set_config('interlock_line.number', number::text, false)
  FROM (SELECT ((extract(epoch FROM clock_timestamp()) * 1000)::bigint + generate_series(0, 1000000)) % 2147483648
       ) AS every (number)
 WHERE pg_try_advisory_lock({numbers}, number::integer)
 LIMIT 1;
SELECT set_config('interlock_line.before', coalesce(({before})::text, ''), false);
"""

# The number directly before this session's in this queue. A shared lock on a number is held by the session that waits
# for it.
_BEFORE = f"""
    WITH held AS MATERIALIZED (
        SELECT pid, mode, classid::bigint AS first, objid::bigint AS second FROM {_ADVISORY}
    ), others AS (
        SELECT number.second AS number,
               (current_setting('interlock_line.number')::bigint - number.second + 2147483648) % 2147483648 AS ahead
          FROM held AS entry JOIN held AS number USING (pid)
         WHERE (entry.first, entry.second) = ({{queue_shown}})
           AND number.first = {{numbers_shown}} AND number.mode = 'ExclusiveLock'
    )
    SELECT number FROM others WHERE ahead BETWEEN 1 AND 1073741823 ORDER BY ahead LIMIT 1
"""  # noqa: S608 - nothing but constants

# One step: one position further, or the lock itself and out of the queue, or nothing within the lock_timeout. The error
# of the timeout is caught here, because the server would log it. If an advisory lock is granted just when the time is
# up, this session has it all the same, and the next step gets it without waiting.
_WAIT = """
DO $$
DECLARE
    own text := current_setting('interlock_line.number');
    before text := current_setting('interlock_line.before');
BEGIN
    IF before <> '' THEN
        PERFORM pg_advisory_lock_shared({numbers}, before::integer);
        PERFORM pg_advisory_unlock_shared({numbers}, before::integer);
        PERFORM set_config('interlock_line.before', coalesce(({before})::text, ''), false);
    ELSE
        PERFORM pg_advisory_lock({lock});
        PERFORM pg_advisory_unlock({numbers}, own::integer);
        PERFORM pg_advisory_unlock_shared({queue});
        PERFORM set_config('interlock_line.number', '', false);
    END IF;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END
$$;
SELECT WHERE current_setting('interlock_line.number') = ''
"""
