"""Makes sure that nothing of a migrator that died still works on the database.

An open run, seen by whoever now holds the lock, means that its migrator ended uncleanly: killed, cut off, stopped. Its
processes may still be dying, and statements that it sent run on in the server even when it is long dead, under
whatever application name. So the successor first lets them come to their own end, and then ends every session that can
be theirs: the sessions that the run named, and those of its role that began in its time.
"""

import asyncio
import logging

from interlock import errors
from interlock.clock import boottime
from interlock.gate.lock import LockSession
from interlock.gate.name import PRESENT
from interlock.gate.progress import OpenRun, gate_queries
from interlock.gate.timing import Timing
from interlock.stores.postgres.session import Row

log = logging.getLogger(__name__)

_PATIENCE = 30.0


async def outlive(run: OpenRun, lock: LockSession, schema: str, timing: Timing) -> None:
    """Return once no session of the predecessor is left; raise PredecessorAlive if some cannot be ended."""
    log.warning("gate.unclean_end", extra={"gate": str(lock.name), "fence": run.fence, **run.facts()})
    await asyncio.sleep(timing.settle)
    leftovers = gate_queries(schema)["leftovers"]
    give_up_at = boottime() + _PATIENCE
    while rows := await lock.session.fetch(leftovers, str(lock.name), *PRESENT):
        refused = [row["pid"] for row in rows if not await _end(row, lock)]
        if refused or boottime() > give_up_at:
            raise _still_alive(run, lock, refused or [row["pid"] for row in rows])
        await asyncio.sleep(0.05)


async def _end(row: Row, lock: LockSession) -> bool:
    """Whether the session was told to end, or has ended by itself."""
    facts = {name: row[name] for name in ("pid", "role", "application_name", "address", "state")}
    log.warning("gate.ending_session", extra={"gate": str(lock.name), **facts})
    try:
        await lock.session.fetchval("SELECT pg_terminate_backend($1)", row["pid"])
    except errors.PermissionMissing:
        return False
    return True


def _still_alive(run: OpenRun, lock: LockSession, pids: list[int]) -> errors.PredecessorAlive:
    listed = ", ".join(map(str, pids))
    return errors.PredecessorAlive(
        f"The migrator {run.replica} died and may have left work running in server processes {listed}, "
        f"which role {lock.role!r} cannot end: end them, or grant it pg_signal_backend and pg_read_all_stats.",
        gate=str(lock.name),
        pids=pids,
    )
