"""A scope of names, in which each name has at most one owner. A scope object has no state, so it may be shared."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from interlock.coordination.claims.queries import (
    claim,
    claim_all,
    list_claims,
    release,
    translate_error,
)
from interlock.coordination.claims.results import Claiming, Free, Kept, Owned, Releasing, Transferring
from interlock.coordination.lease.times import Duration, checked_timeout
from interlock.errors import ConfigurationError
from interlock.logs import events
from interlock.names import plain_name
from interlock.user_connections import Steps, run_steps, run_steps_sync

log = events(__name__)

T = TypeVar("T")

Spelling = Callable[[str], str]
"""A function that returns the canonical spelling of a name, or raises `InvalidName`."""


class _Scope:
    """The common part of `AsyncClaims` and `Claims`. The function `schema` is called at the first use."""

    def __init__(self, schema: Callable[[], str], scope: str, names: Spelling) -> None:
        self.scope = plain_name(scope)
        self._find_schema = schema
        self._spelling = names

    @cached_property
    def _schema(self) -> str:
        return self._find_schema()

    def _names(self, names: Iterable[str | None]) -> list[str]:
        """Return the names in their canonical spelling, sorted, without empty names and repetitions."""
        return sorted({self._spelling(name) for name in names if name})

    def _claim(self, name: str, owner: str, timeout: Duration, again: bool) -> Steps[Claiming]:
        spelt = self._spelling(name)
        return claim(self._schema, self.scope, spelt, plain_name(owner), _finite(timeout), again)

    def _claim_all(
        self, names: Sequence[str], owner: str, timeout: Duration, again: bool
    ) -> Steps[list[Claiming | Free]]:
        return claim_all(self._schema, self.scope, names, plain_name(owner), _finite(timeout), again)

    def _release(self, name: str, owner: str, timeout: Duration, pass_to: str | None = None) -> Steps[Transferring]:
        if pass_to is not None and plain_name(pass_to) == owner:
            raise ConfigurationError(f"{name!r} cannot be passed from {owner!r} to the same owner: name another owner.")
        spelt = self._spelling(name)
        return release(self._schema, self.scope, spelt, plain_name(owner), _finite(timeout), pass_to)

    def _list(self, name: str | None, owner: str | None, past: bool) -> Steps[list[Owned]]:
        return list_claims(self._schema, self.scope, name and self._spelling(name), owner, past)


class AsyncClaims(_Scope):
    """Claims on async connections. Each call is part of the transaction that is open on its connection."""

    async def claim(
        self, connection: Any, name: str | None, owner: str, *, timeout: Duration = 0, again: bool = False
    ) -> Claiming | None:
        """Claim the name for the owner. Returns None for an empty name.

        While another transaction that claims or releases the name is open, the claim is retried for at most `timeout`
        seconds. If the owner has released the name before, the claim counts as a late repetition and is refused, unless
        `again` is set.
        """
        if not name:
            return None
        return _logged(owner, await run_steps(connection, self._claim(name, owner, timeout, again), translate_error))

    async def claim_all(
        self,
        connection: Any,
        names: Iterable[str | None],
        owner: str,
        *,
        timeout: Duration = 0,
        again: bool = False,
    ) -> list[Claiming | Free]:
        """Claim all names or none. Returns one result for each name, ordered by name. No order of the names can cause a
        deadlock."""
        if wanted := self._names(names):
            return _all_logged(
                owner, await run_steps(connection, self._claim_all(wanted, owner, timeout, again), translate_error)
            )
        return []

    async def release(self, connection: Any, name: str, owner: str, *, gone: bool, timeout: Duration = 0) -> Releasing:
        """Release the name; only its owner can do that. Without `gone`, which says that the resource is known to be
        gone completely, the name is kept."""
        if not gone:
            return _logged(owner, Kept(self.scope, self._spelling(name), owner))
        return _logged(owner, await run_steps(connection, self._release(name, owner, timeout), translate_error))

    async def transfer(self, connection: Any, name: str, owner: str, to: str, *, timeout: Duration = 0) -> Transferring:
        """Pass the name to another owner. No third owner can claim the name in between."""
        return _logged(owner, await run_steps(connection, self._release(name, owner, timeout, to), translate_error))

    async def owned(self, connection: Any, *, owner: str | None = None) -> list[Owned]:
        """Returns the current ownerships in the scope, all or those of one `owner`."""
        return await run_steps(connection, self._list(None, owner, False), translate_error, in_transaction=False)

    async def history(self, connection: Any, name: str) -> list[Owned]:
        """Returns every ownership of the name, past and current, in order."""
        return await run_steps(connection, self._list(name, None, True), translate_error, in_transaction=False)


class Claims(_Scope):
    """Claims on sync connections, in the calling thread. A connection may be a string, the alias of a Django database;
    None is Django's default database."""

    def claim(
        self, connection: Any, name: str | None, owner: str, *, timeout: Duration = 0, again: bool = False
    ) -> Claiming | None:
        if not name:
            return None
        return _logged(owner, run_steps_sync(connection, self._claim(name, owner, timeout, again), translate_error))

    def claim_all(
        self,
        connection: Any,
        names: Iterable[str | None],
        owner: str,
        *,
        timeout: Duration = 0,
        again: bool = False,
    ) -> list[Claiming | Free]:
        if wanted := self._names(names):
            return _all_logged(
                owner, run_steps_sync(connection, self._claim_all(wanted, owner, timeout, again), translate_error)
            )
        return []

    def release(self, connection: Any, name: str, owner: str, *, gone: bool, timeout: Duration = 0) -> Releasing:
        if not gone:
            return _logged(owner, Kept(self.scope, self._spelling(name), owner))
        return _logged(owner, run_steps_sync(connection, self._release(name, owner, timeout), translate_error))

    def transfer(self, connection: Any, name: str, owner: str, to: str, *, timeout: Duration = 0) -> Transferring:
        return _logged(owner, run_steps_sync(connection, self._release(name, owner, timeout, to), translate_error))

    def owned(self, connection: Any, *, owner: str | None = None) -> list[Owned]:
        return run_steps_sync(connection, self._list(None, owner, False), translate_error, in_transaction=False)

    def history(self, connection: Any, name: str) -> list[Owned]:
        return run_steps_sync(connection, self._list(name, None, True), translate_error, in_transaction=False)


def _finite(timeout: Duration) -> float:
    seconds = checked_timeout(timeout)
    if seconds is None or seconds == math.inf:
        raise ConfigurationError(
            "A claim is part of your transaction and never waits without limit: pass a finite timeout."
        )
    return seconds


def _all_logged(owner: str, results: list[Claiming | Free]) -> list[Claiming | Free]:
    return [_logged(owner, result) for result in results]


def _logged(owner: str, result: T) -> T:
    """Log the result with the owner that asked for it, and return the result: every decision is logged."""
    if log.isEnabledFor(logging.INFO):
        facts = {"claim" if key == "name" else key: value for key, value in vars(result).items()}
        log.info(f"claim.{type(result).__name__.lower()}", extra={**facts, "asked_by": owner})
    return result
