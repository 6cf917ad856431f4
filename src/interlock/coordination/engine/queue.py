"""Waiting for one's turn: told by the store, with a look now and then in case that word got lost.

Those who wait for one name share one look-out: the first of them looks when the lease expires, or after `_POLL_EVERY`,
and then again. So a queue of thousands costs no more looks than a queue of one.
"""

import asyncio
import random
from uuid import UUID

from interlock.clock import boottime
from interlock.stores.leases import AcquireAnswer, AcquireRequest, HandedGrant, LeaseStore

_POLL_EVERY = 5.0
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
        self.handed: HandedGrant | None = None
        self._called = self._told = False
        self._future: asyncio.Future[None] | None = None

    def tell(self, handed: HandedGrant | None) -> None:
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
        self.is_subscribed = False
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
        entry = QueueEntry(ask.name, ask.grant_id)
        self._turns[ask.grant_id] = entry
        self._queues.setdefault(ask.name, {})[ask.grant_id] = entry
        return entry

    def leave(self, entry: QueueEntry) -> None:
        del self._turns[entry.grant_id]
        queue = self._queues[entry.name]
        del queue[entry.grant_id]
        if not queue:
            del self._queues[entry.name]
            if lookout := self._lookouts.pop(entry.name, None):
                lookout.cancel()
        elif entry.name not in self._lookouts:  # it was the look-out itself
            self._look_out(entry.name, _POLL_EVERY)

    def taken(self, entry: QueueEntry, answer: AcquireAnswer, sent_at: float) -> AcquireAnswer | None:
        """What the waiter was handed, as far as it can be trusted without asking; `answer` came to what was sent then.

        The word may be old. What is left of the grant is told by the store's clock, which was `answer.clock` after
        `sent_at`; both go on at the same pace but for a little, unless the store's was set meanwhile.
        """
        handed, entry.handed = entry.handed, None
        if handed is None or not answer.clock:
            return None
        now = boottime()
        waited = now - sent_at
        apart = waited * _DRIFT
        remaining = handed.until - answer.clock - apart
        if not _SHORTEST_HANDED <= remaining - waited <= _LONGEST_HANDED + apart:
            return None
        return AcquireAnswer("granted", handed.token, remaining, 0.0, None, brief=True)

    async def pause(self, entry: QueueEntry, answer: AcquireAnswer) -> None:
        """Until it is time to ask again, by what was answered last."""
        if answer.status in ("locked", "changing"):  # nobody will tell us when that ends
            entry.step = min(max(answer.retry_after, entry.step * 1.5), _LONGEST_BLOCK)
            await entry.wait(entry.step)
            return
        expiry = answer.retry_after + _AFTER_EXPIRY
        if answer.status == "held back":  # nobody is put into the queue, so nobody there will be told
            await entry.wait(min(expiry, _POLL_EVERY * random.uniform(0.8, 1.2)))
            return
        if self.is_subscribed:
            entry.step = 0.0
            self._look_out(entry.name, min(expiry, _POLL_EVERY * random.uniform(0.8, 1.2)))
            await entry.wait()
            return
        entry.step = min(max(_SHORTEST, entry.step * 1.5), _LONGEST)
        await entry.wait(min(expiry, entry.step * random.uniform(0.8, 1.0)))

    async def subscribe(self) -> None:
        """Afterwards whoever queues will be told, where the store can do that."""
        async with self._opening:
            if not self.is_subscribed:
                self.is_subscribed = await self._store.subscribe(self.call, self._subscription_ended)

    async def unsubscribe(self) -> None:
        async with self._opening:
            if self.is_subscribed and self.is_empty:
                self.is_subscribed = False
                await self._store.unsubscribe()

    def call(self, grant_id: UUID | None, handed: HandedGrant | None = None) -> None:
        """Its turn has come; None: the store has given us up, and everybody has to ask, and queue, again."""
        if grant_id is None:
            self.call_all()
        elif entry := self._turns.get(grant_id):
            entry.tell(handed)

    def wake(self, name: str) -> None:
        """Somebody may have to ask: the first of those who wait for that name does."""
        if queue := self._queues.get(name):
            next(iter(queue.values())).call()

    def call_all(self) -> None:
        for entry in self._turns.values():
            entry.call()

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

    def _subscription_ended(self) -> None:
        """What was said meanwhile is lost, and to the others we look dead: everybody has to ask, and queue, again."""
        self.is_subscribed = False
        self.call_all()
