"""What is asked of the database, whichever connection asks it."""

from functools import lru_cache
from typing import Protocol
from uuid import UUID

from interlock.errors import GuardRefused
from interlock.stores.postgres.queries import in_schema
from interlock.user_connections import adapter


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
def statement(schema: str) -> str:
    """The casts spare drivers the guessing: some take all integers for 32 bits, some have no type for a UUID."""
    return in_schema(
        "SELECT interlock.guard_v1(CAST($1 AS text), CAST($2 AS bigint), CAST(CAST($3 AS text) AS uuid))", schema
    )


def parameters(grant: Guarded) -> tuple[str, int, str]:
    return grant.name, grant.token, str(grant.grant_id)


def refused(grant: Guarded, why: str) -> GuardRefused:
    return GuardRefused(f"The lease {grant.name!r} cannot be guarded here. {why}.", name=grant.name)


def outside(grant: Guarded, what_to_do: str) -> GuardRefused:
    """Between two transactions a guard would protect nothing."""
    return refused(grant, adapter.outside(what_to_do))
