"""Forked children let go of what is their parent's.

A child has a copy of every descriptor. As long as it has the turnstile's or a socket's open, a parent that has died
seems to live. The connections it must not even close: SQLite would take the parent's locks and files for its own. And a
fork waits until no thread of ours is inside SQLite: the child would find its mutexes locked by a thread it has not.

Interrupts. A signal's handler may raise wherever Python runs in the main thread: in the middle of a hook, or before its
first line. Python only prints that, and the fork goes on. So what a fork holds is one lock, the door, which C functions
take and give back: nothing can come between. Whether somebody is inside is only looked at. A child that was made all
the same while somebody was inside finds that out by itself, and is refused the use of SQLite, where it might hang.
"""

import os
import threading
import time
from typing import Any, Protocol
from weakref import WeakSet, ref

from interlock import errors

_STEP = 0.0005


class Inherited(Protocol):
    def let_go(self) -> object:
        """In a forked child, perhaps twice. What comes back is kept there, untouched, to its end."""


_ours: "WeakSet[Inherited]" = WeakSet()
_untouched: list[Any] = []
_all: "set[ref[InsideSqlite]]" = set()
"""Others come, and what is collected goes, while a fork looks: each is done by one C function, at one stroke."""
_door = threading.RLock()
"""Who goes inside has it for a moment, who forks until that is done. Only who has taken it can give it back."""
_is_unfit = False
"""A child that was made while a thread of its parent's was inside."""


class InsideSqlite:
    """``with`` it, a thread is inside SQLite. One for each thread, not nested, and never around a wait for others."""

    def __init__(self) -> None:
        self._thread: int | None = None
        _all.add(ref(self, _all.discard))

    def __enter__(self) -> None:
        with _door:
            self._thread = threading.get_ident()

    def __exit__(self, *exc_info: object) -> None:
        self._thread = None

    @property
    def has_another(self) -> bool:
        """Whether a thread is there, and it is not this one."""
        return self._thread not in (None, threading.get_ident())


def _others_inside() -> list[InsideSqlite]:
    """Threads that have gone inside, apart from this one."""
    return [inside for each in _all.copy() if (inside := each()) is not None and inside.has_another]


def left_alone_in_children(thing: Inherited) -> None:
    _ours.add(thing)


def require_fit() -> None:
    if _is_unfit:
        raise errors.ConfigurationError(
            "This process was forked while its parent used SQLite, because an interrupt came: it cannot use SQLite. "
            "Fork it anew."
        )


def _wait_until_all_are_outside() -> None:
    """With the door shut. An interrupt ends the wait, and leaves nothing behind."""
    while _others_inside():
        time.sleep(_STEP)


def _let_go() -> None:
    global _is_unfit
    _is_unfit = _is_unfit or bool(_others_inside())
    _all.clear()  # of threads that are not here
    _untouched.extend(thing.let_go() for thing in list(_ours))
    _ours.clear()


# What is registered last is called first before a fork, and last after it. In a child that was made without the door
# another thread may have it, which is not there: so it is not given back, but made anew, as Python does with its own.
os.register_at_fork(before=_wait_until_all_are_outside, after_in_child=_let_go)
os.register_at_fork(after_in_child=_let_go)  # once more: an interrupt may have ended the first
os.register_at_fork(
    before=_door.acquire,
    after_in_parent=_door.release,
    after_in_child=_door._at_fork_reinit,  # type: ignore[attr-defined] # not in what mypy knows of it
)
