"""Compares Interlock's schema in a database with the schema that this release needs."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from interlock import errors
from interlock.schema.migrations import Migration, MigrationScript, all_migrations
from interlock.stores.postgres import Session
from interlock.stores.postgres.queries import in_schema


class State(StrEnum):
    MISSING = "missing"
    FOREIGN = "foreign"
    OUTDATED = "outdated"
    CURRENT = "current"
    NEWER = "newer"
    TOO_NEW = "too new"


@dataclass(frozen=True)
class SchemaStatus:
    """`applied` are the migrations that the database has, `pending` those that this release would still apply."""

    schema: str
    state: State
    applied: frozenset[MigrationScript]
    pending: tuple[Migration, ...]

    def require(self) -> None:
        """Raises a SchemaError unless this release can work with the schema as it is."""
        apply = "run `interlock schema apply`"
        match self.state:
            case State.MISSING:
                raise errors.SchemaMissing(f"Interlock's schema {self.schema!r} is not in this database: {apply}.")
            case State.OUTDATED:
                raise errors.SchemaOutdated(f"Interlock's schema {self.schema!r} is older than this release: {apply}.")
            case State.FOREIGN:
                raise errors.SchemaForeign(
                    f"The schema {self.schema!r} exists and is not Interlock's: name another schema with "
                    "INTERLOCK_SCHEMA."
                )
            case State.TOO_NEW:
                raise errors.SchemaTooNew(
                    f"Interlock's schema {self.schema!r} was changed by a newer release "
                    "in a way that this release cannot work with: upgrade Interlock here."
                )
            case State.CURRENT | State.NEWER:
                return


def judge(applied: Collection[MigrationScript], known: Collection[MigrationScript]) -> State:
    """Returns the state of a schema with the migrations `applied`, for a release that knows the migrations `known`.

    This is a pure function, and never returns MISSING or FOREIGN.
    """
    unknown = set(applied) - set(known)
    if any(step.phase == "post" for step in unknown):
        return State.TOO_NEW
    if any(step not in applied for step in known if step.phase == "pre"):
        return State.OUTDATED
    return State.NEWER if unknown else State.CURRENT


async def read_status(session: Session, schema: str) -> SchemaStatus:
    applied = await _applied(session, schema)
    if applied is None:
        return SchemaStatus(schema, State.MISSING, frozenset(), all_migrations())
    if not applied:
        return SchemaStatus(schema, State.FOREIGN, frozenset(), ())
    known = {migration.step for migration in all_migrations()}
    pending = tuple(migration for migration in all_migrations() if migration.step not in applied)
    return SchemaStatus(schema, judge(applied, known), applied, pending)


async def _applied(session: Session, schema: str) -> frozenset[MigrationScript] | None:
    """Returns the applied migrations, or None if there is no schema of that name or the schema is empty.

    The result is empty if the schema has objects, but none of Interlock's.
    """
    listing = in_schema("SELECT version, phase FROM interlock.migration", schema)
    row = await session.fetchrow(_SCHEMA_CONTENT, schema)
    if row is None:
        return None
    if not row["has_migrations"]:
        return frozenset() if row["objects"] else None
    return frozenset(MigrationScript(row["version"], row["phase"]) for row in await session.fetch(listing))


# Other programs have tables called `migration` too: Interlock's is identified by the name of a constraint.
_SCHEMA_CONTENT = """
SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid)
       OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = n.oid)
       OR EXISTS (SELECT FROM pg_type WHERE typnamespace = n.oid) AS objects,
       EXISTS (SELECT FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
                WHERE c.relnamespace = n.oid AND c.relname = 'migration' AND k.conname = 'migration_phase_known'
              ) AS has_migrations
  FROM pg_namespace n
 WHERE n.nspname = $1
"""
