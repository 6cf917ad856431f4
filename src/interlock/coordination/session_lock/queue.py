"""The session that holds a session lock, or stands in line for it.

Who gets the lock is decided by the server alone: it is an advisory lock, held by one session at a time, and it ends
with the session. The line only decides who asks next, so no mistake there lets two in.

Whoever finds the lock taken draws a number, which is an advisory lock too, as is the mark that it stands in this line:
both are visible in ``pg_locks`` and gone when their session is. Then it waits for the number right before its own, and
the first in line for the lock itself. Each wait ends after `_STEP`, and with it the transaction, or else CREATE INDEX
CONCURRENTLY and VACUUM would wait for us; nobody loses a place by that, because nobody else waits for the same number.

Every statement from the first lock on is one message, its answer the number of rows. In the two messages of a statement
with arguments a process could be stopped halfway, and the server would not count that as silence.

A crash between any two statements leaves a session that the server ends: at once if the socket is closed, otherwise
when nothing was heard for the ttl. Those behind then move up.
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
_GOODBYE = 1.0


@dataclass(frozen=True)
class SessionTiming:
    """All in seconds. The server ends a holder's session `ttl` after its last heartbeat; its own trust ends before."""

    ttl: float

    def __post_init__(self) -> None:
        if not 2 <= self.ttl <= 3600:
            raise errors.ConfigurationError(
                f"A session lock's ttl of {self.ttl:g} s cannot work: use 2 s (heartbeats need that) to 3600 s."
            )

    @property
    def trust(self) -> float:
        """The rest is for the holder, who has to stop when he learns of the loss."""
        return self.ttl * 3 / 4

    @property
    def heartbeat(self) -> float:
        return self.trust / 4


class QueuedSession(HeartbeatSession):
    """Belongs to one acquisition, and is closed with it."""

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
            await configure(session, await _settings(session, name, timing))
        except BaseException:
            await session.abort()
            raise
        return cls(session, schema, name, timing)

    async def take(self) -> bool:
        """Take the lock if it is free and nobody stands in line."""
        return await self._took(self._statements.take)

    async def wait(self) -> None:
        """Stand in line until the lock is ours."""
        await self._execute(self._statements.join)
        while not await self._took(self._statements.step):
            pass

    async def outlast(self) -> None:
        """Trust is over, and the server still has the lock: let it, for as long as it would by itself.

        So nobody else has it while whoever was told of the loss comes to an end.
        """
        if not self.session.is_closed:
            await asyncio.sleep(self._timing.ttl - self._timing.trust)

    async def give_back(self) -> None:
        await self._execute("SELECT pg_advisory_unlock_all()")

    async def close(self) -> None:
        """A statement that still runs is cancelled first, so that the server process is gone when this returns."""
        await self.session.close(_GOODBYE)

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
            f"{session.shown_url} is a connection pooler, where two could hold one session lock: give Interlock the "
            "database's own address, or take a lease instead, which works through a pooler."
        )


async def _settings(session: Session, name: str, timing: SessionTiming) -> dict[str, str]:
    """A waiter stays below the server's deadlock check, which would be logged as a long wait with each step."""
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
    """Of one lock; they hold its keys, because a statement with arguments is more than one message."""

    def __init__(self, schema: str, name: str) -> None:
        lock = AdvisoryKey.of("interlock session lock", schema, name)
        line = AdvisoryKey.of("interlock session lock line", schema, name)
        keys = {"lock": lock, "line": line, "line_shown": line.shown, "numbers": _NUMBERS.first}
        before = _BEFORE.format(**keys, numbers_shown=_NUMBERS.first & 0xFFFFFFFF)
        self.take = _TAKE.format(**keys)
        self.join = _JOIN.format(**keys, before=before)
        self.step = _WAIT.format(**keys, before=before)


_NUMBERS = AdvisoryKey.of("interlock session lock numbers")
"""Only its first half: the second is the number. Whose line a number is for is told by the line's own key."""

_ADVISORY = """pg_locks
     WHERE locktype = 'advisory' AND granted AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""

_TAKE = f"""
SELECT WHERE CASE
    WHEN EXISTS (SELECT FROM {_ADVISORY} AND (classid::bigint, objid::bigint) = ({{line_shown}})) THEN false
    ELSE pg_try_advisory_lock({{lock}}) END
"""  # noqa: S608 - nothing but constants

# A number is the time in milliseconds, as far as it fits: half of what fits are twelve days. Who draws one in the same
# millisecond gets the next.
_JOIN = """
SELECT pg_advisory_lock_shared({line});
SELECT set_config('interlock_line.number', number::text, false)
  FROM (SELECT ((extract(epoch FROM clock_timestamp()) * 1000)::bigint + generate_series(0, 1000000)) % 2147483648
       ) AS every (number)
 WHERE pg_try_advisory_lock({numbers}, number::integer)
 LIMIT 1;
SELECT set_config('interlock_line.before', coalesce(({before})::text, ''), false);
"""

# The number of whoever stands right before us in this line. A shared lock on a number is somebody who waits for it.
_BEFORE = f"""
    WITH held AS MATERIALIZED (
        SELECT pid, mode, classid::bigint AS first, objid::bigint AS second FROM {_ADVISORY}
    ), others AS (
        SELECT number.second AS number,
               (current_setting('interlock_line.number')::bigint - number.second + 2147483648) % 2147483648 AS ahead
          FROM held AS place JOIN held AS number USING (pid)
         WHERE (place.first, place.second) = ({{line_shown}})
           AND number.first = {{numbers_shown}} AND number.mode = 'ExclusiveLock'
    )
    SELECT number FROM others WHERE ahead BETWEEN 1 AND 1073741823 ORDER BY ahead LIMIT 1
"""  # noqa: S608 - nothing but constants

# One step: a place further, or the lock itself and out of the line, or nothing within the lock_timeout. It is caught
# here so that the server's log does not fill up with errors. An advisory lock that comes just when the time is up is
# ours all the same; the next step then gets it without waiting.
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
        PERFORM pg_advisory_unlock_shared({line});
        PERFORM set_config('interlock_line.number', '', false);
    END IF;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END
$$;
SELECT WHERE current_setting('interlock_line.number') = ''
"""
