"""The interface of a grant that a guard needs, and the errors of a guard that is refused."""

from typing import Protocol
from uuid import UUID

from interlock.errors import GuardRefused, LeaseLost
from interlock.user_connections import adapter


class Guarded(Protocol):
    """The part of a grant that a guard needs. `check` raises `LeaseLost` if the grant cannot be trusted any more."""

    @property
    def name(self) -> str: ...
    @property
    def token(self) -> int: ...
    @property
    def grant_id(self) -> UUID: ...
    @property
    def schema(self) -> str: ...

    def check(self) -> None: ...


def refused(grant: Guarded, why: str) -> GuardRefused:
    return GuardRefused(f"The lease {grant.name!r} cannot be guarded here. {why}.", name=grant.name)


def outside(grant: Guarded, what_to_do: str) -> GuardRefused:
    """Return the error for a connection without an open transaction: between two transactions a guard would protect
    nothing."""
    return refused(grant, adapter.outside(what_to_do))


def lost(grant: Guarded, hint: str = "") -> LeaseLost:
    return LeaseLost(
        f"The lease {grant.name!r} is not held by the grant with token {grant.token} any more: "
        f"roll back and stop.{hint}",
        name=grant.name,
        token=grant.token,
    )
