"""The guard of a grant that stands on a connection, for all transactions that begin and end in a block.

It is a setting of the server's session. Nothing is asked in the transactions themselves: when one of them commits that
has written a table which the lease protects, the table's trigger finds the setting and calls `guard_v1`. So the setting
decides nothing, and a stale one opens nothing. What must not happen is that it stays behind in a session that others
use later, for their writes would pass as ours while the grant is current. Therefore:

- It is set between transactions, by a statement that compares the server's process with the one that the connection
  was told of when it was opened: a pooler's session is refused before anything is set in it.
- It is taken away between transactions too, for a rollback would bring it back. A transaction that is still open then
  is rolled back: it began in the block, and nothing would guard it any more.
- Where it cannot be taken away, or nobody knows whether it was set, the session is ended.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Any

from interlock.connections import AsyncSession, SyncSession, Work, async_use, code_of, sync_use, work, work_sync
from interlock.connections.drivers import announced_pid, hang_up, is_closed
from interlock.coordination.guards.call import Guarded, parameters, refused
from interlock.coordination.guards.verdicts import judged, lost, told
from interlock.errors import GuardRefused
from interlock.stores.postgres.queries import Queries

_EACH = "call grant.guard(connection) in each transaction"

_REFUSALS = {
    "pooled": "The connection leads through a pooler, and what stands in a session of its would serve others as well: "
    f"connect to the server itself, or {_EACH}",
    "unprotected": "No table of this database is protected by that lease, so nothing would be guarded: "
    f"protect the table with interlock.protect_v1 as docs/guard.md shows, or {_EACH}",
    "already": "Its guard stands on this connection already: leave it to the block outside",
}


@asynccontextmanager
async def guarding(grant: Guarded, connection: Any) -> AsyncIterator[None]:
    """`GuardRefused`: not on this connection as it stands. `LeaseLost`, also for a COMMIT in the block that said so."""
    grant.check()
    with judged(grant):
        standing = _Standing(grant, async_use(connection).session())
        await work(standing.begin())
    try:
        with told(grant):
            yield
    except BaseException:
        await work(standing.end())
        raise
    if await work(standing.end()):
        raise _left_open(grant)


@contextmanager
def guarding_sync(grant: Guarded, connection: Any = None) -> Iterator[None]:
    """As `guarding`, in the calling thread."""
    grant.check()
    with judged(grant):
        standing = _Standing(grant, sync_use(connection).session())
        work_sync(standing.begin())
    try:
        with told(grant):
            yield
    except BaseException:
        work_sync(standing.end())
        raise
    if work_sync(standing.end()):
        raise _left_open(grant)


class _Standing:
    """One guard, on one connection."""

    def __init__(self, grant: Guarded, session: AsyncSession | SyncSession) -> None:
        self._grant = grant
        self._session = session
        self._driver: Any = None

    def begin(self) -> Work[None]:
        if (yield self._session.is_engaged()):
            raise refused(
                self._grant,
                "A transaction is open on the connection, and its rollback would take the guard away: commit it or "
                "roll it back before, or call grant.guard(connection) in it",
            )
        self._driver = yield self._session.driver()
        pid = announced_pid(self._driver)
        if pid is None:
            raise refused(
                self._grant,
                "The connection's driver does not tell which process of the server's it speaks to, and there may be a "
                f"pooler in between: use psycopg or asyncpg, or {_EACH}",
            )
        yield from self._set(pid)

    def _set(self, pid: int) -> Work[None]:
        try:
            [(status,)] = yield self._session.settle(
                _statements(self._grant.schema)["stand"], (*parameters(self._grant), pid)
            )
        except BaseException as error:
            if code_of(error) is None:  # not the server's word, so it may be set
                hang_up(self._driver)
            raise
        if status == "lost":
            raise lost(self._grant)
        if why := _REFUSALS.get(status):
            raise refused(self._grant, why)

    def end(self) -> Work[bool]:
        """Whether a transaction was open. A connection that is closed has taken its setting with it."""
        if is_closed(self._driver):
            return False
        try:
            return (yield from self._take_away())
        except BaseException as error:
            if isinstance(error, Exception) and is_closed(self._driver):  # it broke meanwhile
                return False
            hang_up(self._driver)
            raise

    def _take_away(self) -> Work[bool]:
        if (yield self._session.driver()) is not self._driver:
            raise refused(
                self._grant,
                "The connection was given back to its pool while the guard stood on it, so the session was ended: "
                "give it back after the block",
            )
        was_engaged: bool = yield self._session.is_engaged()
        if was_engaged:
            yield self._session.roll_back()
            if (yield self._session.is_engaged()):
                raise refused(
                    self._grant,
                    "A transaction was open at the end of the block and could not be rolled back, so the session was "
                    "ended: commit inside the block",
                )
        yield self._session.settle(_statements(self._grant.schema)["stand_down"], parameters(self._grant))
        return was_engaged


def _left_open(grant: Guarded) -> GuardRefused:
    return refused(
        grant,
        "A transaction was open at the end of the block, where nothing guards it any more, so it was rolled back: "
        "commit inside the block",
    )


@lru_cache
def _statements(schema: str) -> Queries:
    return Queries("interlock.coordination.guards", "standing.sql", schema)
