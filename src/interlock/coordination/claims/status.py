"""Claims as an operator reads them, on a session of Interlock's own."""

from interlock.coordination.claims.queries import owned, queries
from interlock.coordination.claims.results import Owned
from interlock.stores.postgres import Session


async def read_claims(
    session: Session, schema: str, scope: str | None, name: str | None, owner: str | None, *, past: bool
) -> list[Owned]:
    rows = await session.fetch(queries(schema)["list"], scope, name, owner, past)
    return [owned(*row) for row in rows]
