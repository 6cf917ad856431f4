"""The statements of claims, and the translation of their rows into results."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from interlock.coordination.claims.results import (
    Claimed,
    Claiming,
    Free,
    NotClaimed,
    Owned,
    Pending,
    Released,
    Taken,
    Transferring,
)
from interlock.errors import ConnectionUnfit, InterlockError, PermissionMissing
from interlock.stores.postgres import Queries, Session
from interlock.user_connections import Steps

_MISSING = ("42883", "3F000")
_NO_PRIVILEGE = "42501"


@cache
def queries(schema: str) -> Queries:
    return Queries("interlock.coordination.claims", "queries.sql", schema)


def claim(schema: str, scope: str, name: str, owner: str, wait: float, again: bool) -> Steps[Claiming]:
    [row] = yield queries(schema)["claim_one"], (scope, name, owner, wait, again)
    return _claim_result(scope, name, *row)


def claim_all(
    schema: str, scope: str, names: Sequence[str], owner: str, wait: float, again: bool
) -> Steps[list[Claiming | Free]]:
    rows = yield queries(schema)["claim"], (scope, list(names), owner, wait, again)
    return [
        Free(scope, name) if status == "free" else _claim_result(scope, name, status, *others)
        for name, status, *others in sorted(rows)
    ]


def release(schema: str, scope: str, name: str, owner: str, wait: float, pass_to: str | None) -> Steps[Transferring]:
    rows = yield queries(schema)["release"], (scope, name, owner, wait, pass_to)
    return _release_result(scope, name, *rows[0]) if rows else NotClaimed(scope, name)


def list_claims(schema: str, scope: str | None, name: str | None, owner: str | None, past: bool) -> Steps[list[Owned]]:
    rows = yield queries(schema)["list"], (scope, name, owner, past)
    return [_owned(*row) for row in rows]


def _owned(
    number: int, scope: str, name: str, owner: str, since: datetime, released_at: datetime | None, passed_to: str | None
) -> Owned:
    return Owned(number, scope, name, owner, _utc(since), released_at and _utc(released_at), passed_to)


async def read_claims(
    session: Session, schema: str, scope: str | None, name: str | None, owner: str | None, *, past: bool
) -> list[Owned]:
    """Returns the claims as an operator reads them, on Interlock's own session."""
    rows = await session.fetch(queries(schema)["list"], scope, name, owner, past)
    return [_owned(*row) for row in rows]


def translate_error(code: str | None) -> InterlockError | None:
    """Translate an SQLSTATE that means a wrong database or a missing privilege; return None for any other SQLSTATE."""
    if code in _MISSING:
        why = (
            "Its database has no claims of this release of Interlock: pass a connection to the database that keeps the "
            "claims, or run `interlock schema apply` on this database"
        )
        return ConnectionUnfit(f"This connection cannot be used here. {why}.", why=why)
    if code == _NO_PRIVILEGE:
        return PermissionMissing(
            "The connection's role may not claim names: run `interlock schema grant ROLE --for claims`."
        )
    return None


def _claim_result(scope: str, name: str, status: str, number: int, owner: str, since: Any, released: Any) -> Claiming:
    match status:
        case "claimed" | "yours":
            return Claimed(scope, name, owner, number, _utc(since), status == "yours")
        case "taken":
            return Taken(scope, name, owner, _utc(since))
        case "released":
            return Released(scope, name, owner, number, _utc(since), _utc(released), None, replay=True)
        case _:
            return Pending(scope, name)


def _release_result(
    scope: str, name: str, status: str, number: int, owner: str, since: Any, released: Any, passed_to: str | None
) -> Transferring:
    match status:
        case "taken":
            return Taken(scope, name, owner, _utc(since))
        case "pending":
            return Pending(scope, name)
        case _:
            return Released(
                scope, name, owner, number, _utc(since), _utc(released), passed_to, replay=status == "before"
            )


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
