"""The remains of a predecessor: every part of a migration with an unclean end has to stop before the next one begins.

If the new holder of the lock finds an open run, its migrator was killed, cut off or suspended. Two things may be left:

*The migrator's process*, if the server ended the lock's session and the process has not noticed yet. The process
trusts its lock for a time, and so does the supervisor of its command. Its other session shows that the process lives;
while that session exists, the successor waits until the trust is over. After the server itself lost its sessions
(crash, restart, promotion), no session can show that the process lives, so the successor waits as well.

*The migrator's statements*, which run on in the server even if the process is long dead, under any application name.
They get a moment to end by themselves; then the successor ends every session that can belong to the migrator.
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

_END_TIMEOUT = 30.0
_NO_LIMIT = datetime.max.replace(tzinfo=UTC)


async def wait_until_gone(run: OpenRun, records: GateRecords, lock: LockSession) -> None:
    """Wait until nothing of the predecessor is left. Raises PredecessorAlive if a session cannot be ended."""
    log.warning("gate.unclean_end", extra={"gate": records.gate, "fence": run.fence, **run.facts()})
    await _process_ended(run, lock)
    leftovers = Leftovers(run.fence, records, lock, is_old=run.is_old)
    await leftovers.end_after_pause(subject=f"The migrator {run.replica} died and")


class Leftovers:
    """The sessions that may belong to an open run. The run's migrator or its successor ends them."""

    def __init__(self, fence: int, records: GateRecords, lock: LockSession, *, is_old: bool = False) -> None:
        self._fence = fence
        self._records = records
        self._lock = lock
        self._latest = _NO_LIMIT
        self._is_old = is_old

    async def find(self) -> list[Row]:
        query = self._records.queries["leftovers"]
        return await self._records.session.fetch(
            query, self._records.gate, self._fence, *PRESENT, self._latest, self._is_old
        )

    async def end_after_pause(self, subject: str) -> None:
        """Give the sessions a moment to end by themselves, end the remaining ones, and return when all are gone.

        The migration opens no session after that moment. Later sessions belong to other clients, which may connect
        again because this has ended their sessions.
        """
        await asyncio.sleep(self._lock.timing.settle)
        self._latest = await self._records.session.fetchval("SELECT clock_timestamp()")
        give_up_at = boottime() + _END_TIMEOUT
        while rows := await self.find():
            refused = [row["pid"] for row in rows if not await self._end_one(row)]
            if refused or boottime() > give_up_at:
                raise _still_alive(subject, self._lock, refused or [row["pid"] for row in rows])
            await asyncio.sleep(0.05)

    async def _end_one(self, row: Row) -> bool:
        """Returns True if the session was asked to end or has ended; False if this role may not end it."""
        facts = {name: row[name] for name in ("pid", "role", "application_name", "address", "state")}
        log.warning("gate.ending_session", extra={"gate": self._records.gate, **facts})
        statement = self._records.queries["end_session"]
        try:
            ended = await self._records.session.fetch(statement, row["pid"], self._lock.pid, *self._lock.name.lock)
        except errors.PermissionMissing:
            return False
        if not ended:
            gate = self._records.gate
            raise errors.GateLost(f"The gate {gate} was lost while old sessions were ended: migrate again.", gate=gate)
        return True


async def _process_ended(run: OpenRun, lock: LockSession) -> None:
    """Wait until the predecessor's process has ended, or its trust is over.

    The server answered its last heartbeat before this process got the lock, so its trust ends at most `ttl` after that.
    """
    trust_ends_at = boottime() + run.ttl
    while boottime() < trust_ends_at:
        if not run.cut_by_server and not await is_held(lock.session, lock.name.alive(run.fence)):
            return
        await asyncio.sleep(0.1)


def _still_alive(subject: str, lock: LockSession, pids: list[int]) -> errors.PredecessorAlive:
    listed = ", ".join(map(str, pids))
    return errors.PredecessorAlive(
        f"{subject} may have left work running in server processes {listed}, "
        f"and they do not end, or role {lock.role!r} may not end them: end these processes, "
        "or grant that role pg_signal_backend and pg_read_all_stats.",
        gate=str(lock.name),
        pids=pids,
    )
