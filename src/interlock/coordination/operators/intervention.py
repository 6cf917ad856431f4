"""What an operator can do about a lease that is held: take it from its holder. It leaves a row: by whom, and why."""

from dataclasses import dataclass

from interlock import errors
from interlock.coordination.operators.status import Party, operations
from interlock.stores.postgres import Session


@dataclass(frozen=True)
class Broken:
    """From whom it was taken. Nobody gets it for `remaining` seconds. `terminated` are the server processes ended."""

    name: str
    token: int
    party: Party
    remaining: float
    terminated: tuple[int, ...]


async def break_lease(
    session: Session, schema: str, name: str, *, immediate: bool, terminate: bool, reason: str | None, by: str
) -> Broken | None:
    """Take the lease from its holder, who learns of it when it renews next. None: nobody holds it.

    Nobody else gets it while that holder may still trust it, unless `immediate`. `terminate` ends the sessions whose
    open transactions guard it, also those of an earlier holder. `by` is the person; the role is recorded anyway.
    """
    try:
        row = await session.fetchrow(operations(schema)["break"], name, immediate, terminate, reason, by)
    except errors.PermissionMissing as error:
        raise await _which_permission(session, schema) from error
    if row is None:
        return None
    party = Party(row["holder"], row["host"], row["pid"])
    return Broken(name, row["token"], party, row["remaining"], tuple(row["terminated"]))


async def _which_permission(session: Session, schema: str) -> errors.PermissionMissing:
    if await session.fetchval(operations(schema)["may_break"], schema):
        return errors.PermissionMissing(
            f"The owner of the schema {schema!r} may not end other roles' sessions, so nothing was changed: "
            "let a superuser GRANT pg_signal_backend to it, or leave --terminate out."
        )
    role = await session.fetchval("SELECT current_user")
    return errors.PermissionMissing(
        f"The role {role!r} may not break leases: let an owner run `interlock schema grant {role} --for operations`."
    )
