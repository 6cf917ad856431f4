"""A check against nesting: a command under a lease that acquires the same lease would wait for itself forever."""

from collections.abc import Mapping
from uuid import UUID

from interlock import errors
from interlock.coordination.backends.choice import StoreOptions, choose_database
from interlock.coordination.lease.command import GRANT_ID, NAME, TOKEN
from interlock.coordination.operators.postgres import operations
from interlock.stores.leases import Holder
from interlock.stores.postgres import connect

_TIMEOUT = 5.0


async def require_not_within(url: str, schema: str, name: str, environment: Mapping[str, str]) -> None:
    """Raise `LeaseNested` if `environment` belongs to a command that runs under this very lease, in this database."""
    if environment.get(NAME) != name:
        return
    try:
        token, grant_id = int(environment[TOKEN]), UUID(environment[GRANT_ID])
    except (KeyError, ValueError):  # not set by Interlock
        return
    if not await (_is_current if url.startswith("postgres") else _is_held)(url, schema, name, token, grant_id):
        return
    raise errors.LeaseNested(
        f"This command runs under the lease {name!r} already, and would wait for itself without end: drop the inner "
        "`interlock` command, or give it another lease's name.",
        name=name,
    )


async def _is_current(url: str, schema: str, name: str, token: int, grant_id: UUID) -> bool:
    async with await connect(url, application_name="interlock command") as session:
        try:
            await session.execute(operations(schema)["is_current"], name, token, grant_id)
        except errors.StatementFailed:  # not current, or there is no schema: acquiring reports that
            return False
    return True


async def _is_held(url: str, schema: str, name: str, token: int, grant_id: UUID) -> bool:
    """Look the grant up in the list of held leases, for stores other than PostgreSQL. A held token identifies one
    grant."""
    options = StoreOptions(password=None, schema=schema, pooler="detect", timeout=_TIMEOUT)
    store = choose_database(url, options).open(Holder("interlock command", "", 0), lambda purpose: None)
    try:
        held = await store.held(name)
    finally:
        await store.close()
    return any((lease.name, lease.token) == (name, token) for lease in held)
