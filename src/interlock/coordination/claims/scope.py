"""A scope of names, in which each has one owner at the most. It has no state: share it."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from interlock.coordination.claims.queries import claiming, claiming_all, judge, listing, releasing
from interlock.coordination.claims.results import Claiming, Free, Kept, Owned, Releasing, Transferring
from interlock.coordination.lease.times import Duration, checked_timeout
from interlock.errors import ConfigurationError
from interlock.logs import events
from interlock.names import plain_name
from interlock.user_connections import Steps, run_steps, run_steps_sync

log = events(__name__)

T = TypeVar("T")

Spelling = Callable[[str], str]
"""How a name is written; raises `InvalidName` if it is none."""


class _Scope:
    """What both faces have in common. `schema` may not be known before it is used."""

    def __init__(self, schema: Callable[[], str], scope: str, names: Spelling) -> None:
        self.scope = plain_name(scope)
        self._find_schema = schema
        self._spelling = names

    @cached_property
    def _schema(self) -> str:
        return self._find_schema()

    def _names(self, names: Iterable[str | None]) -> list[str]:
        """An empty name is none."""
        return sorted({self._spelling(name) for name in names if name})

    def _claiming(self, name: str, owner: str, timeout: Duration, again: bool) -> Steps[Claiming]:
        spelt = self._spelling(name)
        return claiming(self._schema, self.scope, spelt, plain_name(owner), _patience(timeout), again)

    def _claiming_all(
        self, names: Sequence[str], owner: str, timeout: Duration, again: bool
    ) -> Steps[list[Claiming | Free]]:
        return claiming_all(self._schema, self.scope, names, plain_name(owner), _patience(timeout), again)

    def _releasing(self, name: str, owner: str, timeout: Duration, pass_to: str | None = None) -> Steps[Transferring]:
        if pass_to is not None and plain_name(pass_to) == owner:
            raise ConfigurationError(f"{name!r} is to be passed on to {owner!r}, whose it is: name another owner.")
        spelt = self._spelling(name)
        return releasing(self._schema, self.scope, spelt, plain_name(owner), _patience(timeout), pass_to)

    def _listing(self, name: str | None, owner: str | None, past: bool) -> Steps[list[Owned]]:
        return listing(self._schema, self.scope, name and self._spelling(name), owner, past)


class AsyncClaims(_Scope):
    """On async connections; each call is part of the transaction that is open there."""

    async def claim(
        self, connection: Any, name: str | None, owner: str, *, timeout: Duration = 0, again: bool = False
    ) -> Claiming | None:
        """Make the name the owner's. No name, no claim: None.

        While another's transaction that claims or releases it is open, it is looked at again for `timeout` seconds.
        A claim by whoever has released the name is taken for a late repetition and refused, unless `again` is said.
        """
        if not name:
            return None
        return _say(owner, await run_steps(connection, self._claiming(name, owner, timeout, again), judge))

    async def claim_all(
        self,
        connection: Any,
        names: Iterable[str | None],
        owner: str,
        *,
        timeout: Duration = 0,
        again: bool = False,
    ) -> list[Claiming | Free]:
        """All of them or none, by name; never a deadlock, in whichever order they are given."""
        if wanted := self._names(names):
            return _told(owner, await run_steps(connection, self._claiming_all(wanted, owner, timeout, again), judge))
        return []

    async def release(self, connection: Any, name: str, owner: str, *, gone: bool, timeout: Duration = 0) -> Releasing:
        """Give the name up, which only its owner can. `gone`: what it stands for is known to be gone, all of it."""
        if not gone:
            return _say(owner, Kept(self.scope, self._spelling(name), owner))
        return _say(owner, await run_steps(connection, self._releasing(name, owner, timeout), judge))

    async def transfer(self, connection: Any, name: str, owner: str, to: str, *, timeout: Duration = 0) -> Transferring:
        """Pass the name on, without a moment in which a third could claim it."""
        return _say(owner, await run_steps(connection, self._releasing(name, owner, timeout, to), judge))

    async def owned(self, connection: Any, *, owner: str | None = None) -> list[Owned]:
        """Who owns which names now."""
        return await run_steps(connection, self._listing(None, owner, False), judge, in_transaction=False)

    async def history(self, connection: Any, name: str) -> list[Owned]:
        """Who has owned it, in order."""
        return await run_steps(connection, self._listing(name, None, True), judge, in_transaction=False)


class Claims(_Scope):
    """The same on sync connections, in the calling thread. Django's may be named by an alias; None is its default."""

    def claim(
        self, connection: Any, name: str | None, owner: str, *, timeout: Duration = 0, again: bool = False
    ) -> Claiming | None:
        if not name:
            return None
        return _say(owner, run_steps_sync(connection, self._claiming(name, owner, timeout, again), judge))

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
            return _told(owner, run_steps_sync(connection, self._claiming_all(wanted, owner, timeout, again), judge))
        return []

    def release(self, connection: Any, name: str, owner: str, *, gone: bool, timeout: Duration = 0) -> Releasing:
        if not gone:
            return _say(owner, Kept(self.scope, self._spelling(name), owner))
        return _say(owner, run_steps_sync(connection, self._releasing(name, owner, timeout), judge))

    def transfer(self, connection: Any, name: str, owner: str, to: str, *, timeout: Duration = 0) -> Transferring:
        return _say(owner, run_steps_sync(connection, self._releasing(name, owner, timeout, to), judge))

    def owned(self, connection: Any, *, owner: str | None = None) -> list[Owned]:
        return run_steps_sync(connection, self._listing(None, owner, False), judge, in_transaction=False)

    def history(self, connection: Any, name: str) -> list[Owned]:
        return run_steps_sync(connection, self._listing(name, None, True), judge, in_transaction=False)


def _patience(timeout: Duration) -> float:
    patience = checked_timeout(timeout)
    if patience is None or patience == math.inf:
        raise ConfigurationError("A claim is part of your transaction and never waits without end: say how long.")
    return patience


def _told(owner: str, results: list[Claiming | Free]) -> list[Claiming | Free]:
    return [_say(owner, result) for result in results]


def _say(owner: str, result: T) -> T:
    """Every decision is logged: who asked, and for what."""
    if log.isEnabledFor(logging.INFO):
        facts = {"claim" if key == "name" else key: value for key, value in vars(result).items()}
        log.info(f"claim.{type(result).__name__.lower()}", extra={**facts, "asked_by": owner})
    return result
