"""Closes the sessions of a parent process in its forked children.

A child has a copy of every socket. While a copy is open, the server does not notice that the parent has died, and the
parent's locks stay. The child must not end the session properly: that would end the parent's session.
"""

import os
from typing import Protocol, TypeVar
from weakref import WeakSet


class Severed(Protocol):
    def sever(self) -> None:
        """Close this process's copy of the socket without a message to the server.

        A forked child may call it twice, if an interrupt ended the first call.
        """


S = TypeVar("S", bound=Severed)

_registered: "WeakSet[Severed]" = WeakSet()


def replace_with_devnull(descriptor: int) -> None:
    """Keep the descriptor's number in use: code that still uses the number must not reach another file."""
    devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(devnull, descriptor, inheritable=False)
    os.close(devnull)


def closed_in_children(session: S) -> S:
    _registered.add(session)
    return session


def _close_all() -> None:
    for session in list(_registered):
        session.sever()


os.register_at_fork(after_in_child=_close_all)
os.register_at_fork(after_in_child=_close_all)  # twice: an interrupt may have ended the first call
