"""Connections that psycopg's pool has lent, also to Django: how it is made to lend nobody else what was done to one.

The pool closes what comes back after its time, instead of lending it on, and has done so in every version. So whoever
does something to a connection that nobody else may find there lets its time be over, and gives it the old one back when
that is undone. If the connection is given back meanwhile, its session ends, whatever the pool's own `reset` does to it.

Whoever wants to undo it has to know whether the connection is still theirs: a pool with a `reset` calls that later, in
a thread of its own, and who uses the connection then may wait for ever. Nothing at the connection tells that it is on
its way, so the pool is made to note that it was given back.
"""

import weakref
from collections.abc import Callable
from typing import Any

from interlock.connections.use import unfit


class _Reserved(float):
    """A time that is over, in the place of `until`. `by`: how many have reserved the connection."""

    until: float
    by: int
    is_given_back: bool


class PsycopgLoan:
    """A connection's, as it is now. Where no pool of psycopg's has lent it, nothing is done."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._pool = getattr(driver, "_pool", None) if hasattr(driver, "pgconn") else None
        self._reserved: _Reserved | None = None

    @property
    def is_over(self) -> bool:
        return self._reserved is not None and self._reserved.is_given_back

    def reserve(self) -> None:
        if self._pool is None:
            return
        if not hasattr(self._driver, "_expire_at"):
            raise unfit("The pool that has lent the connection cannot be told to close it afterwards: pass another one")
        _let_note(self._pool)
        if not isinstance(self._driver._expire_at, _Reserved):
            self._driver._expire_at = _instead_of(self._driver._expire_at)
        self._reserved = self._driver._expire_at
        self._reserved.by += 1

    def free(self) -> None:
        if self._reserved is None:
            return
        self._reserved.by -= 1
        if not self._reserved.by:
            self._driver._expire_at = self._reserved.until

    def forfeit(self) -> None:
        """The pool does."""


def _instead_of(until: float) -> _Reserved:
    reserved = _Reserved(0)
    reserved.until, reserved.by, reserved.is_given_back = until, 0, False
    return reserved


class _Noting:
    """A pool's `putconn`. The pool is not made to refer to itself: it stops its threads when nobody has it any more."""

    def __init__(self, pool: Any, own: Callable[[Any], Any] | None) -> None:
        self._pool = weakref.ref(pool)
        self._own = own

    def __call__(self, conn: Any) -> Any:
        pool: Any = self._pool()
        reserved = getattr(conn, "_expire_at", None)
        if isinstance(reserved, _Reserved) and conn._pool is pool:
            reserved.is_given_back = True
        return self._own(conn) if self._own else type(pool).putconn(pool, conn)


def _let_note(pool: Any) -> None:
    """Once for each pool."""
    own = vars(pool).get("putconn")
    if not isinstance(own, _Noting):
        pool.putconn = _Noting(pool, own)
