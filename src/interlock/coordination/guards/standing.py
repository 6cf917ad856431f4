"""Guards of grants that stand on a connection, for all transactions that begin and end in a block.

It is a setting of the server's session. Nothing is asked in the transactions themselves: when one of them commits that
has written a table which a lease protects, the table's trigger finds the setting and calls `guard_v1`. So the setting
decides nothing, and a stale one opens nothing. What must not happen is that it stays behind in a session that others
use later, for their writes would pass as ours while the grant is current. Therefore:

- It is set between transactions, by a statement that compares the server's process with the one that the connection
  was told of when it was opened: a pooler's session is refused before anything is set in it.
- It is taken away between transactions too, for a rollback would bring it back. A transaction that is still open then
  is rolled back: it began in the block, and nothing would guard it any more.
- Where it cannot be taken away, or nobody knows whether it was set, the session is ended.
- A connection that a pool has lent may be given back in the middle of the block, and lent to others before its end. So
  while the guard stands, psycopg's pool and SQLAlchemy's are made to close it instead (`Loan`).
- Of several grants all are set by one statement, or none stays: one that is refused has the others taken away again.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Any

from interlock.connections import AsyncSession, Loan, SyncSession, Work, async_use, code_of, sync_use, work, work_sync
from interlock.connections.drivers import announced_pid, hang_up, is_closed
from interlock.coordination.guards.call import Guarded, parameters, refused
from interlock.coordination.guards.verdicts import judged, lost, told
from interlock.errors import InterlockError
from interlock.stores.postgres.queries import Queries

_EACH = "call grant.guard(connection) in each transaction"

_REFUSALS = {
    "pooled": "The connection leads through a pooler, and what stands in a session of its would serve others as well: "
    f"connect to the server itself, or {_EACH}",
    "already": "Its guard stands on this connection already: leave it to the block outside",
}

_GIVEN_BACK = (
    "The connection was given back to its pool while the guard stood on it, so the session was ended: "
    "give it back after the block"
)
_LEFT_OPEN = (
    "A transaction was open at the end of the block, where nothing guards it any more, so it was rolled back: "
    "commit inside the block"
)


@asynccontextmanager
async def guarding(grants: Sequence[Guarded], connection: Any) -> AsyncIterator[None]:
    """`GuardRefused`: not on this connection as it stands. `LeaseLost`, also for a COMMIT in the block that said so."""
    for grant in grants:
        grant.check()
    with judged(grants[0]):
        standing = _Standing(grants, async_use(connection).session())
        await work(standing.begin())
    try:
        with told(grants):
            yield
    except BaseException:
        await work(standing.end())
        raise
    if why := await work(standing.end()):
        raise refused(grants[0], why)


@contextmanager
def guarding_sync(grants: Sequence[Guarded], connection: Any = None) -> Iterator[None]:
    """As `guarding`, in the calling thread."""
    for grant in grants:
        grant.check()
    with judged(grants[0]):
        standing = _Standing(grants, sync_use(connection).session())
        work_sync(standing.begin())
    try:
        with told(grants):
            yield
    except BaseException:
        work_sync(standing.end())
        raise
    if why := work_sync(standing.end()):
        raise refused(grants[0], why)


class _Standing:
    """The guards of some grants, on one connection."""

    def __init__(self, grants: Sequence[Guarded], session: AsyncSession | SyncSession) -> None:
        self._grants = grants
        self._first = grants[0]
        self._session = session
        self._driver: Any = None
        self._loan: Loan | None = None
        self._stood: list[Guarded] = []

    def begin(self) -> Work[None]:
        if (yield self._session.is_engaged()):
            raise refused(
                self._first,
                "A transaction is open on the connection, and its rollback would take the guard away: commit it or "
                "roll it back before, or call grant.guard(connection) in it",
            )
        self._driver = yield self._session.driver()
        pid = announced_pid(self._driver)
        if pid is None:
            raise refused(
                self._first,
                "The connection's driver does not tell which process of the server's it speaks to, and there may be a "
                f"pooler in between: use psycopg or asyncpg, or {_EACH}",
            )
        self._loan = self._session.loan()
        self._loan.reserve()
        try:
            yield from self._stand(pid)
        except BaseException:
            self._loan.free()
            raise

    def _stand(self, pid: int) -> Work[None]:
        statuses = yield from self._set(pid)
        self._stood = [grant for grant in self._grants if statuses[grant.name] == "standing"]
        if why_not := _why_not(self._grants, statuses):
            yield from self._undo()
            raise why_not

    def _set(self, pid: int) -> Work[dict[str, str]]:
        try:
            rows = yield self._session.settle(_statements(self._first.schema)["stand"], (_listed(self._grants), pid))
        except BaseException as error:
            if code_of(error) is None:  # not the server's word, so it may be set
                hang_up(self._driver)
            raise
        return dict(rows)

    def _undo(self) -> Work[None]:
        """What was set before it turned out that not all could be."""
        if self._stood:
            try:
                yield from self._stand_down()
            except BaseException:
                hang_up(self._driver)
                raise

    def end(self) -> Work[str | None]:
        """What there is to say against the block. A connection that is closed has taken its setting with it."""
        assert self._loan is not None
        if self._loan.is_over:
            self._loan.forfeit()
            return _GIVEN_BACK
        if is_closed(self._driver):
            return None
        try:
            if (yield self._session.driver()) is not self._driver:
                hang_up(self._driver)
                return _GIVEN_BACK
            was_engaged = yield from self._take_away()
        except BaseException as error:
            if isinstance(error, Exception) and is_closed(self._driver):  # it broke meanwhile
                return None
            hang_up(self._driver)
            raise
        self._loan.free()
        return _LEFT_OPEN if was_engaged else None

    def _take_away(self) -> Work[bool]:
        """Whether a transaction was open."""
        was_engaged: bool = yield self._session.is_engaged()
        if was_engaged:
            yield self._session.roll_back()
            if (yield self._session.is_engaged()):
                raise refused(
                    self._first,
                    "A transaction was open at the end of the block and could not be rolled back, so the session was "
                    "ended: commit inside the block",
                )
        yield from self._stand_down()
        return was_engaged

    def _stand_down(self) -> Work[None]:
        yield self._session.settle(_statements(self._first.schema)["stand_down"], (_listed(self._stood),))


def _why_not(grants: Sequence[Guarded], statuses: dict[str, str]) -> InterlockError | None:
    """Leases that protect nothing here may be among others that do: what they are for is elsewhere."""
    for grant in grants:
        if statuses[grant.name] == "lost":
            return lost(grant)
        if why := _REFUSALS.get(statuses[grant.name]):
            return refused(grant, why)
    if set(statuses.values()) == {"unprotected"}:
        which = "that lease" if len(grants) == 1 else "any of the leases " + ", ".join(repr(g.name) for g in grants)
        return refused(
            grants[0],
            f"No table of this database is protected by {which}, so nothing would be guarded: "
            f"protect the table with interlock.protect_v1 as docs/guard.md shows, or {_EACH}",
        )
    return None


def _listed(grants: Sequence[Guarded]) -> str:
    """As JSON, which every driver can send. Letters stay letters: not every encoding of a server's has escapes."""
    return json.dumps([parameters(grant) for grant in grants], ensure_ascii=False)


@lru_cache
def _statements(schema: str) -> Queries:
    return Queries("interlock.coordination.guards", "standing.sql", schema)
