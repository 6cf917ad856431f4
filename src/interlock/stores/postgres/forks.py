"""Forked children let go of the sessions that are their parent's.

A child has a copy of every socket. As long as that is open, the server does not hear that the parent has died, and the
parent's locks stay. And a goodbye that the child says there would be the parent's.
"""

import os
from typing import Protocol, TypeVar
from weakref import WeakSet


class Severed(Protocol):
    def sever(self) -> None:
        """Close our end, without a word. In a forked child perhaps twice, and the first time not to the end."""


S = TypeVar("S", bound=Severed)

_ours: "WeakSet[Severed]" = WeakSet()


def put_nothing_in_place_of(descriptor: int) -> None:
    """The number stays taken: what still knows it must not meet another file there."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def closed_in_children(ours: S) -> S:
    _ours.add(ours)
    return ours


def _close_all() -> None:
    for each in list(_ours):
        each.sever()


os.register_at_fork(after_in_child=_close_all)
os.register_at_fork(after_in_child=_close_all)  # once more: an interrupt may have ended the first
