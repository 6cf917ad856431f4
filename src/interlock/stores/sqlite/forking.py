"""Forked children let go of what is their parent's.

A child has a copy of every descriptor. As long as it has the turnstile's or a socket's open, a parent that has died
seems to live. The connections it must not even close: SQLite would take the parent's locks and files for its own. And a
fork waits until no thread of ours is inside SQLite: the child would find its mutexes locked by a thread it has not.
"""

import os
import threading
from typing import Any, Protocol
from weakref import WeakSet


class Inherited(Protocol):
    def let_go(self) -> object:
        """In a forked child. What comes back is kept there, untouched, to its end."""


_ours: "WeakSet[Inherited]" = WeakSet()
_untouched: list[Any] = []
_inside: "WeakSet[Inside]" = WeakSet()
_held: "list[Inside]" = []
_one_fork_at_a_time = threading.Lock()


class Inside:
    """``with`` it, a thread is inside SQLite. One for each thread, and never around a wait for others."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _inside.add(self)

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.lock.release()


def left_alone_in_children(thing: Inherited) -> None:
    _ours.add(thing)


def _wait_until_all_are_outside() -> None:
    _one_fork_at_a_time.acquire()
    _held.extend(_inside)
    for inside in _held:
        inside.lock.acquire()


def _go_on() -> None:
    while _held:
        _held.pop().lock.release()
    _one_fork_at_a_time.release()


def _let_go() -> None:
    _go_on()
    _untouched.extend(thing.let_go() for thing in list(_ours))
    _ours.clear()


os.register_at_fork(before=_wait_until_all_are_outside, after_in_parent=_go_on, after_in_child=_let_go)
