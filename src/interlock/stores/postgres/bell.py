"""How processes of one machine tell each other that a lease was handed on, past the server.

A notification wakes every session of the database that listens, to find out that all but one are not meant. Where the
next holder is a process of the same machine, whoever hands on tells it directly, by a datagram. The number by which a
process listens says where it is: below zero it has a bell, and those of one machine share the upper half.

Anybody on the machine can ring. What is said counts only with the grant_id of somebody who waits, which nobody else
knows; what cannot be said, because nobody is there or there is no room, the server is asked to say.
"""

import asyncio
import errno
import hashlib
import os
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from interlock.stores.postgres.forking import closed_in_children, put_nothing_in_place_of

_LONGEST_WORD = 512
_HALF = 16
_TRIES = 100


class Bell:
    """Open from the moment it is made, on the running event loop. `number` is what others ring."""

    def __init__(self, place: int, on_ring: Callable[[str], None]) -> None:
        """Raises OSError."""
        self._on_ring = on_ring
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self.number = self._bind(place)
            # By its number: uvloop would keep a socket open for as long as it reads it, in a forked child too.
            self._loop.add_reader(self._socket.fileno(), self._hear)
        except BaseException:
            self._socket.close()
            raise
        closed_in_children(self)

    def is_near(self, number: int) -> bool:
        """Whether it is one of this machine's. Of 32,768 other machines one seems to be this one; there hardly anybody
        has the very number that is rung here."""
        return number < 0 and number >> _HALF == self.number >> _HALF

    def ring(self, number: int, word: str) -> bool:
        """False: it was not told."""
        try:
            self._socket.sendto(word.encode(), _address(number))
        except OSError:
            return False
        # The kernel wakes the other one on our processor, as if we were about to sleep, and there it would wait until
        # we have nothing more to do: a third of a millisecond, beside an idle processor. So it goes first.
        os.sched_yield()
        return True

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def sever(self) -> None:
        """The event loop that reads it is the parent's."""
        if (descriptor := self._socket.fileno()) >= 0:
            put_nothing_in_place_of(descriptor)
            self._socket.detach()

    def _bind(self, place: int) -> int:
        for _ in range(_TRIES):
            number = place << _HALF | random.randrange(1 << _HALF)
            try:
                self._socket.bind(_address(number))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return number
        raise OSError(errno.EADDRINUSE, "somebody has taken all bells of this machine")

    def _hear(self) -> None:
        """One at a time: whoever says more than that must not keep the event loop from everything else."""
        with suppress(BlockingIOError):
            self._on_ring(self._socket.recv(_LONGEST_WORD).decode(errors="replace"))


def place_of_this_machine() -> int | None:
    """The upper half of its numbers; None where there are no bells. A container that has a network of its own is a
    machine of its own: nobody outside can ring there."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        network = os.fsencode(Path("/proc/self/ns/net").readlink())
    except OSError:
        return None
    return int.from_bytes(hashlib.sha256(boot + network).digest()[:2]) // 2 - (1 << _HALF - 1)


def _address(number: int) -> bytes:
    """In no directory (unix(7), abstract): nobody has to remove it."""
    return b"\0interlock %d" % number
