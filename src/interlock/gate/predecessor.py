"""Makes sure that nothing of a migration that ended uncleanly still works on the database.

An open run, seen by whoever now holds the lock, means that its migrator was killed, cut off or stopped. Two things may
be left of it:

*Its process*, if the lock's session was ended without the process hearing of it. It trusts its lock for a time, and so
does the supervisor of its command. Its other session shows that it lives; while that is there, we wait out the trust.
When a restart of the server took both sessions away, nothing can show that, so then we wait as well.

*Its statements*, which run on in the server even when the process is long dead, under whatever application name. They
get a moment to come to their own end, and then every session that can be theirs is ended.
"""

import asyncio
from datetime import timedelta

from interlock import errors
from interlock.clock import boottime
from interlock.gate.lock import LockSession
from interlock.gate.name import PRESENT
from interlock.gate.progress import OpenRun, Records
from interlock.gate.sessions import is_held
from interlock.logs import events
from interlock.stores.postgres.session import Row

log = events(__name__)

_PATIENCE = 30.0
_EVER = timedelta(days=365_000)


async def outlive(run: OpenRun, records: Records, lock: LockSession) -> None:
    """Return once nothing of the predecessor is left; raise PredecessorAlive if something cannot be ended."""
    log.warning("gate.unclean_end", extra={"gate": records.gate, "fence": run.fence, **run.facts()})
    await _process_ended(run, lock)
    await asyncio.sleep(lock.timing.settle)
    # Twice: it may have beaten once more than it could record, and worked for the whole trust that this gave it.
    until = timedelta(seconds=2 * run.ttl)
    await end_sessions(records, lock, who=f"The migrator {run.replica} died and", until=until)


async def end_sessions(records: Records, lock: LockSession, *, who: str, until: timedelta = _EVER) -> None:
    """End what the open run has left in the server, and return when it is gone."""
    give_up_at = boottime() + _PATIENCE
    while rows := await leftovers(records, until=until):
        refused = [row["pid"] for row in rows if not await _end(row, records)]
        if refused or boottime() > give_up_at:
            raise _still_alive(who, lock, refused or [row["pid"] for row in rows])
        await asyncio.sleep(0.05)


async def leftovers(records: Records, *, until: timedelta = _EVER) -> list[Row]:
    """The sessions that may be the open run's; those that began more than `until` after its last heartbeat are not."""
    return await records.session.fetch(records.queries["leftovers"], records.gate, *PRESENT, until)


async def _process_ended(run: OpenRun, lock: LockSession) -> None:
    """Wait until the predecessor's process is seen to be gone, or all its trust has run out.

    Its last heartbeat was answered before we got the lock, so its trust ends within `ttl` of that.
    """
    trust_ends_at = boottime() + run.ttl
    while boottime() < trust_ends_at:
        if not run.cut_by_restart and not await is_held(lock.session, lock.name.alive(run.fence)):
            return
        await asyncio.sleep(0.1)


async def _end(row: Row, records: Records) -> bool:
    """Whether the session was told to end, or has ended by itself."""
    facts = {name: row[name] for name in ("pid", "role", "application_name", "address", "state")}
    log.warning("gate.ending_session", extra={"gate": records.gate, **facts})
    try:
        await records.session.fetchval("SELECT pg_terminate_backend($1)", row["pid"])
    except errors.PermissionMissing:
        return False
    return True


def _still_alive(who: str, lock: LockSession, pids: list[int]) -> errors.PredecessorAlive:
    listed = ", ".join(map(str, pids))
    return errors.PredecessorAlive(
        f"{who} may have left work running in server processes {listed}, "
        f"which role {lock.role!r} cannot end: end them, or grant it pg_signal_backend and pg_read_all_stats.",
        gate=str(lock.name),
        pids=pids,
    )
