"""The least privileges that a role needs, by the parts of Interlock that it uses."""

from collections.abc import Collection
from typing import Literal, get_args

from interlock import errors
from interlock.schema.status import read_status
from interlock.stores.postgres import Queries, Session, quote_identifier

Use = Literal["gate", "leases", "operations", "claims", "orchestrations", "instances", "keys"]

USES: tuple[Use, ...] = get_args(Use)


def grant_sql(role: str, schema: str, uses: Collection[Use] = USES) -> str:
    """The GRANTs as a script."""
    sections = Queries("interlock.schema", "grants.sql", schema)
    script = ";\n".join(sections[use] for use in USES if use in uses)
    return script.replace(":role", quote_identifier(role)) + ";\n"


async def grant(session: Session, role: str, schema: str, uses: Collection[Use] = USES) -> None:
    if not await session.fetchval("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role):
        raise errors.ConfigurationError(f"There is no role {role!r} in this database: create it first.")
    (await read_status(session, schema)).require()
    await session.execute(grant_sql(role, schema, uses))
