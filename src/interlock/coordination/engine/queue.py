"""Waiting for one's turn: told by the store, with a look now and then in case that word got lost.

Those who wait for one name share one look-out: the first of them looks when the lease expires, or after `_LOOK_AGAIN`,
and then again. So a queue of thousands costs no more looks than a queue of one.
"""

import asyncio
import random
from uuid import UUID

from interlock.clock import boottime
from interlock.stores.leases import AcquireAnswer, AcquireRequest, Handed, LeaseStore

_LOOK_AGAIN = 5.0
"""The longest time without a look. Not what a waiter depends on: it is told, and knows when the lease expires."""
_AFTER_EXPIRY = 0.003
_SHORTEST, _LONGEST = 0.05, 1.0
"""Steps of those who cannot be told. The longest is well below what the store takes for a waiter's end."""
_LONGEST_BLOCK = 0.25
_LONGEST_HANDED = 1.0
_SHORTEST_HANDED = 0.3
"""What has to be left of a grant that was handed on, so that there is time to renew it. Else it is asked for."""
_DRIFT = 0.001
"""By how much of the time two clocks may come apart: twice what a clock is slewed by at most."""


class QueueEntry:
    """One waiter. A call that comes before `wait` is not lost. `handed` is what came with the first word."""

    __slots__ = ("_called", "_future", "_told", "grant_id", "handed", "name", "step")

    def __init__(self, name: str, grant_id: UUID) -> None:
        self.name = name
        self.grant_id = grant_id
        self.step = 0.0
        self.handed: Handed | None = None
        self._called = self._told = False
        self._future: asyncio.Future[None] | None = None

    def tell(self, handed: Handed | None) -> None:
        """The store's word. Everybody on the server can listen in, and say something in its place: but not before the
        first word, which is where the grant_id is told. Whatever comes later is no more than a call."""
        if not self._told:
            self._told = True
            self.handed = handed
        self.call()

    def call(self) -> None:
        self._called = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Until called, or for so long."""
        if not self._called:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, self.call)
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
        self._called = False


class WaitQueue:
    """Everybody in this process who waits, and the ear that they share."""

    def __init__(self, store: LeaseStore) -> None:
        self.hears = False
        self._store = store
        self._opening = asyncio.Lock()
        self._turns: dict[UUID, QueueEntry] = {}
        self._queues: dict[str, dict[UUID, QueueEntry]] = {}
        self._lookouts: dict[str, asyncio.TimerHandle] = {}

    @property
    def is_empty(self) -> bool:
        return not self._turns

    def enter(self, ask: AcquireRequest) -> QueueEntry:
        """Before the store is asked: its word may come before its answer."""
        turn = QueueEntry(ask.name, ask.grant_id)
        self._turns[ask.grant_id] = turn
        self._queues.setdefault(ask.name, {})[ask.grant_id] = turn
        return turn

    def leave(self, turn: QueueEntry) -> None:
        del self._turns[turn.grant_id]
        queue = self._queues[turn.name]
        del queue[turn.grant_id]
        if not queue:
            del self._queues[turn.name]
            if lookout := self._lookouts.pop(turn.name, None):
                lookout.cancel()
        elif turn.name not in self._lookouts:  # it was the look-out itself
            self._look_out(turn.name, _LOOK_AGAIN)

    def taken(self, turn: QueueEntry, answer: AcquireAnswer, sent_at: float) -> AcquireAnswer | None:
        """What the waiter was handed, as far as it can be trusted without asking; `answer` came to what was sent then.

        The word may be old. What is left of the grant is told by the store's clock, which was `answer.clock` after
        `sent_at`; both go on at the same pace but for a little, unless the store's was set meanwhile.
        """
        handed, turn.handed = turn.handed, None
        if handed is None or not answer.clock:
            return None
        now = boottime()
        waited = now - sent_at
        apart = waited * _DRIFT
        remaining = handed.until - answer.clock - apart
        if not _SHORTEST_HANDED <= remaining - waited <= _LONGEST_HANDED + apart:
            return None
        return AcquireAnswer("granted", handed.token, remaining, 0.0, None, brief=True)

    async def pause(self, turn: QueueEntry, answer: AcquireAnswer) -> None:
        """Until it is time to ask again, by what was answered last."""
        if answer.status in ("locked", "changing"):  # nobody will tell us when that ends
            turn.step = min(max(answer.retry_after, turn.step * 1.5), _LONGEST_BLOCK)
            await turn.wait(turn.step)
            return
        expiry = answer.retry_after + _AFTER_EXPIRY
        if answer.status == "held back":  # nobody is put into the queue, so nobody there will be told
            await turn.wait(min(expiry, _LOOK_AGAIN * random.uniform(0.8, 1.2)))
            return
        if self.hears:
            turn.step = 0.0
            self._look_out(turn.name, min(expiry, _LOOK_AGAIN * random.uniform(0.8, 1.2)))
            await turn.wait()
            return
        turn.step = min(max(_SHORTEST, turn.step * 1.5), _LONGEST)
        await turn.wait(min(expiry, turn.step * random.uniform(0.8, 1.0)))

    async def open_ear(self) -> None:
        """Afterwards whoever queues will be told, where the store can do that."""
        async with self._opening:
            if not self.hears:
                self.hears = await self._store.listen(self.call, self._deafened)

    async def close_ear(self) -> None:
        async with self._opening:
            if self.hears and self.is_empty:
                self.hears = False
                await self._store.deafen()

    def call(self, grant_id: UUID | None, handed: Handed | None = None) -> None:
        """Its turn has come; None: the store has given us up, and everybody has to ask, and queue, again."""
        if grant_id is None:
            self.call_all()
        elif turn := self._turns.get(grant_id):
            turn.tell(handed)

    def wake(self, name: str) -> None:
        """Somebody may have to ask: the first of those who wait for that name does."""
        if queue := self._queues.get(name):
            next(iter(queue.values())).call()

    def call_all(self) -> None:
        for turn in self._turns.values():
            turn.call()

    def _look_out(self, name: str, seconds: float) -> None:
        """In so long, or when somebody was to look out anyway: those who come again and again put nobody off."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + seconds
        if lookout := self._lookouts.get(name):
            if lookout.when() <= due_at:
                return
            lookout.cancel()
        self._lookouts[name] = loop.call_at(due_at, self._send_first, name)

    def _send_first(self, name: str) -> None:
        """Whoever came first looks; what it sees sets the next look-out."""
        del self._lookouts[name]
        self.wake(name)

    def _deafened(self) -> None:
        """What was said meanwhile is lost, and to the others we look dead: everybody has to ask, and queue, again."""
        self.hears = False
        self.call_all()
