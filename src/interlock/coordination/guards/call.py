"""What is asked of the database, whichever connection asks it."""

from functools import lru_cache
from typing import Protocol
from uuid import UUID

from interlock.errors import GuardRefused
from interlock.stores.postgres.queries import in_schema


class Guarded(Protocol):
    """The grant, as far as its guard has to know it. `check` raises `LeaseLost` if it cannot be trusted any more."""

    @property
    def name(self) -> str: ...
    @property
    def token(self) -> int: ...
    @property
    def grant_id(self) -> UUID: ...
    @property
    def schema(self) -> str: ...

    def check(self) -> None: ...


@lru_cache
def statement(schema: str, name: str, token: str, grant_id: str) -> str:
    """The call, with the driver's placeholders.

    The casts spare every driver the guessing: some take all integers for 32 bits, and some have no type for a UUID.
    """
    call = f"SELECT interlock.guard_v1(CAST({name} AS text), CAST({token} AS bigint), CAST({grant_id} AS uuid))"
    return in_schema(call, schema)


def parameters(grant: Guarded) -> tuple[str, int, str]:
    return grant.name, grant.token, str(grant.grant_id)


def refused(grant: Guarded, why: str) -> GuardRefused:
    return GuardRefused(f"The lease {grant.name!r} cannot be guarded here. {why}.", name=grant.name)


def outside(grant: Guarded, what_to_do: str) -> GuardRefused:
    """Between two transactions a guard would protect nothing."""
    return refused(grant, f"The connection is in autocommit mode and in no transaction: {what_to_do}")
