"""Taking a lease from whoever holds it: tooz lets anybody do that, Interlock only who may (docs/schema.md)."""

import tooz

from interlock.coordination.breaking import break_lease
from interlock.coordination.choosing import HasSessions
from interlock.coordination.engine import Engine


async def take_away(engine: Engine, name: str, by: str) -> bool:
    """At once, though its holder may be at work. False: nobody holds it. It is recorded who did it."""
    database = engine.database
    if not isinstance(database, HasSessions):
        raise tooz.NotImplemented("Leases can be taken from their holders in PostgreSQL only.")
    async with await database.session(f"interlock tooz {by}") as session:
        broken = await break_lease(
            session, database.schema, name, immediate=True, terminate=False, reason="asked for through tooz", by=by
        )
    return broken is not None
