"""Makes sure that nothing of a migration that ended uncleanly still works on the database.

An open run, seen by whoever now holds the lock, means that its migrator was killed, cut off or stopped. Two things may
be left of it:

*Its process*, if the lock's session was ended without the process hearing of it. It trusts its lock for a time, and so
does the supervisor of its command. Its other session shows that it lives; while that is there, we wait out the trust.
When the server itself lost its sessions (crash, restart, promotion), nothing can show that, so then we wait as well.

*Its statements*, which run on in the server even when the process is long dead, under whatever application name. They
get a moment to come to their own end, and then every session that can be theirs is ended.
"""

import asyncio
from datetime import UTC, datetime

from interlock import errors
from interlock.clock import boottime
from interlock.gate.lock_session import LockSession
from interlock.gate.name import PRESENT
from interlock.gate.progress import GateRecords, OpenRun
from interlock.gate.sessions import is_held
from interlock.logs import events
from interlock.stores.postgres.session import Row

log = events(__name__)

_PATIENCE = 30.0
_EVER = datetime.max.replace(tzinfo=UTC)


async def wait_until_gone(run: OpenRun, records: GateRecords, lock: LockSession) -> None:
    """Return once nothing of the predecessor is left; raise PredecessorAlive if something cannot be ended."""
    log.warning("gate.unclean_end", extra={"gate": records.gate, "fence": run.fence, **run.facts()})
    await _process_ended(run, lock)
    leftovers = Leftovers(run.fence, records, lock, is_old=run.is_old)
    await leftovers.settle_and_end(who=f"The migrator {run.replica} died and")


class Leftovers:
    """The sessions that may belong to an open run: its own to clear up, or its successor's."""

    def __init__(self, fence: int, records: GateRecords, lock: LockSession, *, is_old: bool = False) -> None:
        self._fence = fence
        self._records = records
        self._lock = lock
        self._latest = _EVER
        self._is_old = is_old

    async def find(self) -> list[Row]:
        query = self._records.queries["leftovers"]
        return await self._records.session.fetch(
            query, self._records.gate, self._fence, *PRESENT, self._latest, self._is_old
        )

    async def settle_and_end(self, who: str) -> None:
        """Give them a moment, end those that are left, and return when they are gone.

        What the migration has begun, it has begun by then. Later sessions are other people's, who were perhaps cut off
        by this and connect again.
        """
        await asyncio.sleep(self._lock.timing.settle)
        self._latest = await self._records.session.fetchval("SELECT clock_timestamp()")
        give_up_at = boottime() + _PATIENCE
        while rows := await self.find():
            refused = [row["pid"] for row in rows if not await self._end_one(row)]
            if refused or boottime() > give_up_at:
                raise _still_alive(who, self._lock, refused or [row["pid"] for row in rows])
            await asyncio.sleep(0.05)

    async def _end_one(self, row: Row) -> bool:
        """Whether the session was told to end, or has ended by itself."""
        facts = {name: row[name] for name in ("pid", "role", "application_name", "address", "state")}
        log.warning("gate.ending_session", extra={"gate": self._records.gate, **facts})
        statement = self._records.queries["end_session"]
        try:
            told = await self._records.session.fetch(statement, row["pid"], self._lock.pid, *self._lock.name.lock)
        except errors.PermissionMissing:
            return False
        if not told:
            gate = self._records.gate
            raise errors.GateLost(f"The gate {gate} was lost while clearing up: come to it again.", gate=gate)
        return True


async def _process_ended(run: OpenRun, lock: LockSession) -> None:
    """Wait until the predecessor's process is seen to be gone, or all its trust has run out.

    Its last heartbeat was answered before we got the lock, so its trust ends within `ttl` of that.
    """
    trust_ends_at = boottime() + run.ttl
    while boottime() < trust_ends_at:
        if not run.cut_by_server and not await is_held(lock.session, lock.name.alive(run.fence)):
            return
        await asyncio.sleep(0.1)


def _still_alive(who: str, lock: LockSession, pids: list[int]) -> errors.PredecessorAlive:
    listed = ", ".join(map(str, pids))
    return errors.PredecessorAlive(
        f"{who} may have left work running in server processes {listed}, "
        f"which do not end, or which role {lock.role!r} cannot end: end them, "
        "or grant it pg_signal_backend and pg_read_all_stats.",
        gate=str(lock.name),
        pids=pids,
    )
