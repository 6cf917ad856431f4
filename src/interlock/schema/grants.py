"""The least privileges that a role needs for each part of Interlock that it uses."""

from collections.abc import Collection
from typing import Literal, get_args

from interlock import errors
from interlock.schema.status import read_status
from interlock.stores.postgres import Queries, Session, quote_identifier

Use = Literal["gate", "leases", "operations", "claims", "orchestrations", "instances", "keys"]

USES: tuple[Use, ...] = get_args(Use)


def grant_sql(role: str, schema: str, uses: Collection[Use] = USES) -> str:
    """Returns a script of the GRANT statements that a role needs for these uses."""
    sections = Queries("interlock.schema", "grants.sql", schema)
    script = ";\n".join(sections[use] for use in USES if use in uses)
    return script.replace(":role", quote_identifier(role)) + ";\n"


async def grant(session: Session, role: str, schema: str, uses: Collection[Use] = USES) -> None:
    if not await session.fetchval("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role):
        raise errors.ConfigurationError(f"There is no role {role!r} in this database: create the role first.")
    (await read_status(session, schema)).require()
    await session.execute(grant_sql(role, schema, uses))
