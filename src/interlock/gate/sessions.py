"""Sessions at a gate: direct, in autocommit, and marked, so that a successor does not take them for a migration's."""

from interlock import errors
from interlock.gate.name import PRESENT
from interlock.gate.times import Timing
from interlock.identity import replica_id
from interlock.stores.postgres import AdvisoryKey, Session, connect
from interlock.stores.postgres.advisory import HOLDERS
from interlock.stores.postgres.direct_connection import configure, is_pooled, noticing_a_dead_network, require_primary


async def open_session(url: str, timing: Timing, *, session_pooler: bool = False) -> Session:
    """Connect, refuse a server or pooler that cannot hold a lock, and mark the session as one of a gate.

    A successor that ends the sessions of a dead migrator may also end this one before it is marked: then this connects
    once more. No statement of the session waits longer than the ttl.
    """
    try:
        return await _opened(url, timing, session_pooler)
    except errors.ConnectionLost:
        return await _opened(url, timing, session_pooler)


async def _opened(url: str, timing: Timing, session_pooler: bool) -> Session:
    name = f"interlock gate {replica_id()}"
    session = await connect(url, application_name=name, statement_timeout=timing.ttl)
    try:
        await _refuse_pooler(session, session_pooler)
        await require_primary(session)
        await hold_shared(session, PRESENT)
        await configure(session, noticing_a_dead_network(timing.ttl) | _SETTINGS)
        await session.fetchval(_DURABLE)
    except BaseException:
        await session.abort()
        raise
    return session


async def hold_shared(session: Session, key: AdvisoryKey) -> None:
    """Take the key, shared. This does not wait, because no session holds such a key exclusively."""
    await session.fetchval("SELECT pg_try_advisory_lock_shared($1, $2)", *key)


async def is_held(session: Session, key: AdvisoryKey) -> bool:
    return bool(await session.fetch(HOLDERS, *key))


async def _refuse_pooler(session: Session, stated: bool) -> None:
    """Raises PoolerRefused for a pooler, unless the user has `stated` that it is in session mode.

    If the server session is at a gate already, that statement is wrong.
    """
    if not await is_pooled(session):
        return
    used = stated and await session.fetchval(f"SELECT pg_backend_pid() IN ({HOLDERS})", *PRESENT)
    if stated and not used:
        return
    raise errors.PoolerRefused(
        f"{session.shown_url} is a connection pooler{' in transaction mode' if used else ''}, where two replicas could "
        "both hold the gate: give the gate the database's own address (--database), or use a pooler in session mode "
        "and add --session-pooler."
    )


# If a crash of the server lost the row of a run, its unclean end would not be known.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


_SETTINGS = {
    "idle_session_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": "500",
    "default_transaction_read_only": "off",
}
"""Settings that a gate's session needs, regardless of the defaults of the role and the database."""
