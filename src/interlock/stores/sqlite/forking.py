"""Forked children let go of what is their parent's.

A child has a copy of every descriptor. As long as it has the turnstile's or a socket's open, a parent that has died
seems to live. The connections it must not even close: SQLite would take the parent's locks and files for its own.
"""

import os
from typing import Any, Protocol
from weakref import WeakSet


class Inherited(Protocol):
    def let_go(self) -> object:
        """In a forked child. What comes back is kept there, untouched, to its end."""


_ours: "WeakSet[Inherited]" = WeakSet()
_untouched: list[Any] = []


def left_alone_in_children(thing: Inherited) -> None:
    _ours.add(thing)


def _let_go() -> None:
    _untouched.extend(thing.let_go() for thing in list(_ours))
    _ours.clear()


os.register_at_fork(after_in_child=_let_go)
