"""Applies Interlock's own migrations.

Each migration is one transaction that takes an advisory lock: two processes never apply migrations at the same time,
and a killed process holds the lock until its transaction has really ended. A migration waits for a table in use for
`_LOCK_TIMEOUT` at most, because a waiting ALTER TABLE blocks every later statement. Then it ends and is tried again.
"""

import asyncio
import random

from interlock import errors
from interlock.logs import events
from interlock.schema.migrations import Migration, Phase
from interlock.schema.status import SchemaStatus, State, read_status
from interlock.stores.postgres import AdvisoryKey, Session, quote_identifier
from interlock.stores.postgres.queries import in_schema

log = events(__name__)

_LOCK_TIMEOUT = "200ms"
_ATTEMPTS = 100


async def apply(session: Session, schema: str, *, phases: tuple[Phase, ...] = ("pre",)) -> SchemaStatus:
    """Apply the migrations of these phases that the schema does not have yet. An empty schema is used as it is.

    On a database that never had Interlock, *post* migrations are applied too: no older release uses this database.
    """
    status = await read_status(session, schema)
    if status.state in (State.FOREIGN, State.TOO_NEW):
        status.require()
    if status.state is State.MISSING:
        phases = ("pre", "post")
    for migration in status.pending:
        if migration.step.phase in phases:
            await _apply_patiently(session, schema, migration)
    return await read_status(session, schema)


async def _apply_patiently(session: Session, schema: str, migration: Migration) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            await _apply_one(session, schema, migration)
        except errors.LockNotAvailable:
            log.info("schema.blocked", extra={"migration": migration.name, "attempt": attempt + 1})
            await asyncio.sleep(random.uniform(0.1, 0.5))
        else:
            return
    raise errors.MigrationBlocked(
        f"Migration {migration.step.version} ({migration.name}) found its tables locked {_ATTEMPTS} times: "
        "end the long transaction that locks them (see pg_stat_activity), then try again."
    )


async def _apply_one(session: Session, schema: str, migration: Migration) -> None:
    lock = AdvisoryKey.of("interlock schema", schema)
    async with session.transaction():
        await session.execute(
            f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'; SET LOCAL statement_timeout = 0;"
            "SET LOCAL client_connection_check_interval = '500ms'"
        )
        await session.fetchval("SELECT pg_advisory_xact_lock($1, $2)", *lock)
        if migration.step in (await read_status(session, schema)).applied:
            return
        if not await session.fetchval("SELECT to_regnamespace($1) IS NOT NULL", quote_identifier(schema)):
            await session.execute(f"CREATE SCHEMA {quote_identifier(schema)}")
        await session.execute(in_schema(migration.sql, schema))
        await session.execute(
            in_schema("INSERT INTO interlock.migration (version, phase, name) VALUES ($1, $2, $3)", schema),
            migration.step.version,
            migration.step.phase,
            migration.name,
        )
    log.info("schema.migrated", extra={"version": migration.step.version, "migration": migration.name})
