"""Threads whose answers came together, woken a few at a time.

Of all threads of an interpreter one runs at a time. Those that are woken at once get into each other's way: each finds
that another runs, and is put to sleep again. So a few are on their way at the most, and each wakes the next one as soon
as it runs.

That is quick as long as nobody else wants to run. Beside a thread that computes, each would wait for that one in turn:
as soon as it takes long, all are woken.

What is left behind. A thread that was woken and does not come to run, because a debugger stands in it, for one; or one
that was interrupted before it had woken the next. Then after a moment all others are woken at once. Whoever is to be
woken is forgotten only when that is done: an interrupt in between means that it is done twice, which nobody notices.
"""

import asyncio
import collections
import queue
import time
from typing import Any

_AT_ONCE = 2
_SLOW = 0.001
_LONGEST = 0.01

Bell = queue.SimpleQueue[Any]
"""What a thread waits at; None there is its answer."""


class Waking:
    """`add` is called on the loop, `awake` by any thread. Both leave somebody on the way, or nobody to be woken: who
    finds nobody looks again when it has given its place back."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asleep: collections.deque[Bell] = collections.deque()
        self._places: collections.deque[None] = collections.deque([None] * _AT_ONCE, maxlen=_AT_ONCE)
        self._rung_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, bell: Bell) -> None:
        self._asleep.append(bell)
        self._wake()
        if self._timer is None:
            self._look_later()

    def awake(self) -> None:
        """By a thread that was woken; it does no harm to say so twice."""
        self._places.append(None)
        if self._asleep and time.monotonic() > self._rung_at + _SLOW:
            self.wake_all()
        else:
            self._wake()

    def wake_all(self) -> None:
        while self._asleep:
            self._ring()

    def _wake(self) -> None:
        while self._asleep:
            try:
                self._places.pop()
            except IndexError:
                return
            if not self._ring():
                self._places.append(None)

    def _ring(self) -> bool:
        """False: others were quicker."""
        try:
            bell = self._asleep[0]
            bell.put(None)
            self._asleep.remove(bell)
        except (IndexError, ValueError):
            return False
        self._rung_at = time.monotonic()
        return True

    def _look_later(self) -> None:
        try:
            first = self._asleep[0]
        except IndexError:
            return
        self._timer = self._loop.call_later(_LONGEST, self._look, first)

    def _look(self, first: Bell) -> None:
        self._timer = None
        if self._asleep and self._asleep[0] is first:  # it stood there before
            self.wake_all()
            self.awake()
        self._look_later()
