"""Detaches a forked child from the SQLite connections, locks and sockets of its parent.

A child has a copy of every descriptor. While the child's copy of the writer lock or of a socket is open, a parent that
has died appears alive. The child must not even close the connections: SQLite would take the parent's locks and files
for the child's. And a fork waits until no thread of the process is inside SQLite: else the child would find SQLite's
mutexes locked by a thread that the child does not have.

Interrupts. A signal handler may raise an error wherever Python runs in the main thread: in the middle of a hook, or
before its first line. Python only prints the error, and the fork goes on. So a fork holds one lock only, the entry
lock, which C functions take and release without a gap; threads inside SQLite are only counted. If a child was made
while a thread was inside, the child notices that by itself, and refuses to use SQLite, where it might hang.
"""

import os
import threading
import time
from typing import Any, Protocol
from weakref import WeakSet, ref

from interlock import errors

_POLL_EVERY = 0.0005


class Inherited(Protocol):
    def detach(self) -> object:
        """Called in a forked child, perhaps twice. The child keeps the result until it ends, without using it."""


_registered: "WeakSet[Inherited]" = WeakSet()
_untouched: list[Any] = []
_instances: "set[ref[InsideSqlite]]" = set()
"""May change while a fork reads it: each change is one call of a C function, and so is never seen in part."""
_entry_lock = threading.RLock()
"""A thread holds this lock for a moment to go inside, a fork until it is done. Only the holder can release the lock."""
_is_unusable = False
"""True in a child that was made while a thread of its parent was inside."""


class InsideSqlite:
    """A context in which a thread is inside SQLite. Each thread has one, and must not nest it.

    A thread must not wait for other threads or processes in this context.
    """

    def __init__(self) -> None:
        self._thread: int | None = None
        _instances.add(ref(self, _instances.discard))

    def __enter__(self) -> None:
        with _entry_lock:
            self._thread = threading.get_ident()

    def __exit__(self, *exc_info: object) -> None:
        self._thread = None

    @property
    def has_another(self) -> bool:
        """True if another thread than the calling thread is inside."""
        return self._thread not in (None, threading.get_ident())


def _others_inside() -> list[InsideSqlite]:
    """Returns the contexts in which another thread than the calling thread is inside."""
    return [inside for each in _instances.copy() if (inside := each()) is not None and inside.has_another]


def detach_in_children(thing: Inherited) -> None:
    _registered.add(thing)


def require_usable() -> None:
    if _is_unusable:
        raise errors.ConfigurationError(
            "This process was forked while its parent used SQLite, because an interrupt ended the wait for the parent. "
            "So this process cannot use SQLite: fork again."
        )


def _wait_until_all_are_outside() -> None:
    """Called with the entry lock held. An interrupt ends the wait without any other effect."""
    while _others_inside():
        time.sleep(_POLL_EVERY)


def _detach_all() -> None:
    global _is_unusable
    _is_unusable = _is_unusable or bool(_others_inside())
    _instances.clear()  # of threads that the child does not have
    _untouched.extend(thing.detach() for thing in list(_registered))
    _registered.clear()


# Hooks registered last are called first before a fork, and last after it. In a child that was made without the entry
# lock a thread that the child does not have may hold it: so it is not released but re-initialised, as Python's own are.
os.register_at_fork(before=_wait_until_all_are_outside, after_in_child=_detach_all)
os.register_at_fork(after_in_child=_detach_all)  # twice: an interrupt may have ended the first call
os.register_at_fork(
    before=_entry_lock.acquire,
    after_in_parent=_entry_lock.release,
    after_in_child=_entry_lock._at_fork_reinit,  # type: ignore[attr-defined] # not in what mypy knows of it
)
