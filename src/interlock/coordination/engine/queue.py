"""The wait queue of this process: the store notifies a waiter, and a scheduled poll makes up for a lost notification.

The waiters of one name share one poll timer: the first of them polls when the lease expires, or after `_POLL_EVERY`,
and then again. So a queue of thousands costs no more polls than a queue of one waiter.
"""

import asyncio
import random
from uuid import UUID

from interlock.clock import boottime
from interlock.stores.leases import AcquireAnswer, AcquireRequest, HandedGrant, LeaseStore

_POLL_EVERY = 5.0
"""The longest time between polls. Waiters do not depend on polls: they are notified, and know when the lease expires.
"""
_AFTER_EXPIRY = 0.003
_SHORTEST, _LONGEST = 0.05, 1.0
"""The shortest and longest pause between the polls of waiters that the store cannot notify. The longest is much shorter
than the time after which the store treats a waiter as dead."""
_LONGEST_BLOCK = 0.25
_LONGEST_HANDED = 1.0
_SHORTEST_HANDED = 0.3
"""A grant that came with a notification has to last at least so long, so that there is time to renew it. Otherwise the
waiter requests the lease."""
_DRIFT = 0.001
"""The two clocks may drift apart by this share of the time: it is twice the highest rate at which a clock is slewed."""


class QueueEntry:
    """One waiter in the queue. A wake-up that comes before `wait` is not lost. `handed` is the grant that came with the
    first notification."""

    __slots__ = ("_future", "_notified", "_woken", "grant_id", "handed", "name", "step")

    def __init__(self, name: str, grant_id: UUID) -> None:
        self.name = name
        self.grant_id = grant_id
        self.step = 0.0
        self.handed: HandedGrant | None = None
        self._woken = self._notified = False
        self._future: asyncio.Future[None] | None = None

    def notify(self, handed: HandedGrant | None) -> None:
        """Take a notification of the store. Any session of the server can listen on the channel, see the grant_id
        there, and then forge a notification. So only the first notification may bring a grant; later ones only wake the
        waiter."""
        if not self._notified:
            self._notified = True
            self.handed = handed
        self.wake()

    def wake(self) -> None:
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until the entry is woken, or until `seconds` have passed."""
        if not self._woken:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, self.wake)
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
        self._woken = False


class WaitQueue:
    """All waiters of this process on one event loop, and the subscription to notifications that they share."""

    def __init__(self, store: LeaseStore) -> None:
        self.is_subscribed = False
        self._store = store
        self._subscribing = asyncio.Lock()
        self._entries: dict[UUID, QueueEntry] = {}
        self._queues: dict[str, dict[UUID, QueueEntry]] = {}
        self._polls: dict[str, asyncio.TimerHandle] = {}

    @property
    def is_empty(self) -> bool:
        return not self._entries

    def enter(self, request: AcquireRequest) -> QueueEntry:
        """Add a waiter. This method has to be called before the request is sent, because a notification may come before
        the answer."""
        entry = QueueEntry(request.name, request.grant_id)
        self._entries[request.grant_id] = entry
        self._queues.setdefault(request.name, {})[request.grant_id] = entry
        return entry

    def leave(self, entry: QueueEntry) -> None:
        del self._entries[entry.grant_id]
        queue = self._queues[entry.name]
        del queue[entry.grant_id]
        if not queue:
            del self._queues[entry.name]
            if poll := self._polls.pop(entry.name, None):
                poll.cancel()
        elif entry.name not in self._polls:  # this was the waiter that polled
            self._schedule_poll(entry.name, _POLL_EVERY)

    async def wait(self, entry: QueueEntry, answer: AcquireAnswer) -> None:
        """Wait until it is time to request the lease again; `answer` is the last answer."""
        if answer.status in ("locked", "changing"):  # the end of that is not notified
            entry.step = min(max(answer.retry_after, entry.step * 1.5), _LONGEST_BLOCK)
            await entry.wait(entry.step)
            return
        expiry = answer.retry_after + _AFTER_EXPIRY
        if answer.status == "held back":  # the store puts no waiter into its queue then, so it notifies none
            await entry.wait(min(expiry, _POLL_EVERY * random.uniform(0.8, 1.2)))
            return
        if self.is_subscribed:
            entry.step = 0.0
            self._schedule_poll(entry.name, min(expiry, _POLL_EVERY * random.uniform(0.8, 1.2)))
            await entry.wait()
            return
        entry.step = min(max(_SHORTEST, entry.step * 1.5), _LONGEST)
        await entry.wait(min(expiry, entry.step * random.uniform(0.8, 1.0)))

    def handed_over(self, entry: QueueEntry, answer: AcquireAnswer, sent_at: float) -> AcquireAnswer | None:
        """Return the grant that came with a notification, if it can be trusted without a request; otherwise return
        None.

        The notification may be old. The end of the grant is a time of the store's clock, which read `answer.clock`
        after `sent_at`. Both clocks advance alike except for a small drift, unless the store's clock was set meanwhile.
        """
        handed, entry.handed = entry.handed, None
        if handed is None or not answer.clock:
            return None
        now = boottime()
        waited = now - sent_at
        drift = waited * _DRIFT
        remaining = handed.until - answer.clock - drift
        if not _SHORTEST_HANDED <= remaining - waited <= _LONGEST_HANDED + drift:
            return None
        return AcquireAnswer("granted", handed.token, remaining, 0.0, None, brief=True)

    async def subscribe(self) -> None:
        """Subscribe to notifications. If the store can notify, waiters that enter afterwards are notified."""
        async with self._subscribing:
            if not self.is_subscribed:
                self.is_subscribed = await self._store.subscribe(self.notify, self._subscription_ended)

    async def unsubscribe(self) -> None:
        """End the subscription. Does nothing while there are waiters."""
        async with self._subscribing:
            if self.is_subscribed and self.is_empty:
                self.is_subscribed = False
                await self._store.unsubscribe()

    def notify(self, grant_id: UUID | None, handed: HandedGrant | None = None) -> None:
        """Wake the waiter with this grant_id. With None, wake all waiters: the store has removed all waiters of this
        process from its queue, so each has to request again."""
        if grant_id is None:
            self.wake_all()
        elif entry := self._entries.get(grant_id):
            entry.notify(handed)

    def wake_first(self, name: str) -> None:
        """Let the first waiter of that name request the lease."""
        if queue := self._queues.get(name):
            next(iter(queue.values())).wake()

    def wake_all(self) -> None:
        for entry in self._entries.values():
            entry.wake()

    def _schedule_poll(self, name: str, seconds: float) -> None:
        """Set the time of the next poll. A poll that is due earlier stays: waiters that come again and again must not
        put it off."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + seconds
        if poll := self._polls.get(name):
            if poll.when() <= due_at:
                return
            poll.cancel()
        self._polls[name] = loop.call_at(due_at, self._poll, name)

    def _poll(self, name: str) -> None:
        """Let the first waiter request the lease; the answer schedules the next poll."""
        del self._polls[name]
        self.wake_first(name)

    def _subscription_ended(self) -> None:
        """Wake all waiters, so that each requests again: notifications may be lost, and other processes may treat these
        waiters as dead."""
        self.is_subscribed = False
        self.wake_all()
