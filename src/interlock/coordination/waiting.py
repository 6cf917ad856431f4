"""Waiting for one's turn: told by the store, with a look now and then in case that word got lost."""

import asyncio
import random
from uuid import UUID

from interlock.stores.leases import AcquireAnswer, LeaseStore

_LOOK_AGAIN = 5.0
"""The longest time without a look. Not what a waiter depends on: it is told, and knows when the lease expires."""
_AFTER_EXPIRY = 0.003


class Turn:
    """One waiter. A call that comes before `wait` is not lost."""

    __slots__ = ("_called", "_future")

    def __init__(self) -> None:
        self._called = False
        self._future: asyncio.Future[None] | None = None

    def call(self) -> None:
        self._called = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Until called, or for so long."""
        if not self._called:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = loop.call_later(seconds, self.call)
            try:
                await self._future
            finally:
                timer.cancel()
                self._future = None
        self._called = False


class WaitingRoom:
    """Everybody in this process who waits, and the ear that they share."""

    def __init__(self, store: LeaseStore) -> None:
        self.turns: dict[UUID, Turn] = {}
        self.hears = False
        self._store = store
        self._opening = asyncio.Lock()

    async def open_ear(self) -> None:
        """Afterwards whoever queues will be told, where the store can do that."""
        async with self._opening:
            if not self.hears:
                self.hears = await self._store.listen(self.call, self._deafened)

    async def close_ear(self) -> None:
        async with self._opening:
            if self.hears and not self.turns:
                self.hears = False
                await self._store.deafen()

    def call(self, grant_id: UUID) -> None:
        if turn := self.turns.get(grant_id):
            turn.call()

    def _deafened(self) -> None:
        """What was said meanwhile is lost, and to the others we look dead: everybody has to ask, and queue, again."""
        self.hears = False
        for turn in self.turns.values():
            turn.call()


class Pace:
    """How long a waiter sleeps between two looks, by what the last one showed."""

    __slots__ = ("_step",)

    def __init__(self) -> None:
        self._step = 0.0

    def next(self, answer: AcquireAnswer, *, hears: bool) -> float:
        if answer.status in ("locked", "changing"):  # nobody will tell us when that ends
            self._step = min(max(answer.retry_after, self._step * 1.5), 0.25)
            return self._step
        due = answer.retry_after + _AFTER_EXPIRY
        if hears:
            self._step = 0.0
            return min(due, _LOOK_AGAIN * random.uniform(0.8, 1.2))
        self._step = min(max(0.05, self._step * 1.5), 1.0)
        return min(due, self._step * random.uniform(0.8, 1.2))
