"""What has to reach the store although nobody waits for it: leases that are given back, and places in the queue.

A release that cannot be delivered is tried again for as long as the lease could be held for. A request whose answer was
lost may have been granted: it is asked again, with its own grant_id, for as long, and what comes of that is given back.
"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.engine.acquisition import Acquisition
from interlock.coordination.engine.batch import Batcher
from interlock.coordination.engine.queue import WaitQueue
from interlock.coordination.observation.observer import Observer
from interlock.stores.capabilities import RecordDeletion
from interlock.stores.leases import AcquireAnswer, AcquireRequest, GrantIdentity, LeaseStore, ReleaseAnswer

UNKNOWN = (errors.ConnectionLost, errors.DatabaseUnreachable)
"""After these nobody knows whether the statement took effect."""


def is_unknown(error: BaseException) -> bool:
    """Nor after what is no answer of the store's: the stack was full, say."""
    return isinstance(error, UNKNOWN) or not isinstance(error, errors.InterlockError)


_FOLLOW_UP = 1.05
"""A waiter that was told has a second to come; then the next is told."""
_SOON, _LATER = 0.02, 1.0
_SWEEP_EVERY = 3600.0
_UNUSED = 7 * 86400.0


class OrphanedGrant(NamedTuple):
    """A grant that nobody holds."""

    name: str
    token: int
    grant_id: UUID
    ttl: float


class DeferredRequests:
    """Run by an engine, until `close`."""

    def __init__(self, store: LeaseStore, observer: Observer, queue: WaitQueue) -> None:
        self.releasing: Batcher[GrantIdentity, ReleaseAnswer] = Batcher(
            store.release, self.settle, self._not_released, send_abandoned=True
        )
        self.leaving: Batcher[AcquireRequest, None] = Batcher(
            self._abandon, lambda *_: None, self._not_left, send_abandoned=True
        )
        self._store = store
        self._observer = observer
        self._queue = queue
        self._running: set[asyncio.Task[None]] = set()
        self._undelivered: dict[UUID, GrantIdentity] = {}
        self._offered: dict[str, float] = {}
        self._closed = False
        self._forget_at: dict[str, float] = {}
        self._sweep_at = boottime() + _SWEEP_EVERY * random.random()

    @property
    def are_done(self) -> bool:
        return not self._running and not self._offered

    async def close(self) -> None:
        """Whatever is on its way is still delivered, if that can be done at once."""
        self._closed = True
        for batcher in (self.releasing, self.leaving):
            await batcher.drain()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        for grant in list(self._undelivered.values()):
            self.releasing.post(grant)  # once more, on a new connection: the lease would be kept until it expires
        await self.releasing.drain()

    def give_back(self, ask: Acquisition[Any], answer: AcquireAnswer, sent_at: float) -> None:
        """Whoever asked has gone meanwhile."""
        if answer.status == "granted":
            self.releasing.post(OrphanedGrant(ask.name, answer.token, ask.grant_id, ask.ttl))
        elif ask.wait:
            self.leaving.post(ask)

    def failed(self, ask: Acquisition[Any], error: Exception) -> None:
        """A request failed when nobody waited for it any more."""
        if is_unknown(error) and not ask.in_doubt:
            ask.in_doubt = True
            self.find_out(ask)

    def find_out(self, ask: Acquisition[Any]) -> None:
        """Its answer was lost, and perhaps it was granted."""
        self._begin(self._find_out(ask))

    def release(self, grant: GrantIdentity) -> None:
        """A lease that was lost: if the store still knows it as held, the next need not wait for its end."""
        self._release_until_delivered(grant, 0.0)

    def release_later(self, grant: GrantIdentity) -> None:
        self._release_until_delivered(grant, _SOON)

    def _release_until_delivered(self, grant: GrantIdentity, pause: float) -> None:
        self._undelivered[grant.grant_id] = grant
        self._begin(self._release(grant, pause))

    def forget(self, prefix: str, older_than: float) -> None:
        """Once an hour at most, or as often as something grows old."""
        if (now := boottime()) >= self._forget_at.get(prefix, 0.0):
            self._forget_at[prefix] = now + min(_SWEEP_EVERY, older_than) * random.uniform(0.5, 1.5)
            self._begin(self._forget(prefix, older_than))

    def settle(self, grant: GrantIdentity, answer: ReleaseAnswer, sent_at: float) -> None:
        """A lease was released: whose turn is it now?"""
        if answer.offered is not None:
            if answer.elsewhere:
                self._follow_up(grant.name)
            else:
                self._queue.call(answer.offered, answer.handed)
        elif answer.status == "locked":
            self.release_later(grant)
        if sent_at > self._sweep_at:
            self._sweep_at = sent_at + _SWEEP_EVERY * random.uniform(0.5, 1.5)
            self._begin(self._sweep())

    def _not_released(self, grant: GrantIdentity, error: Exception) -> None:
        self._observer.database_error(error)
        self.release_later(grant)

    def _not_left(self, ask: AcquireRequest, error: Exception) -> None:
        """As long as our ear lives, so does the place, and its turn would go to nobody."""
        self._observer.database_error(error)
        if isinstance(error, (errors.LockNotAvailable, *UNKNOWN)):
            self._begin(self._leave_later(ask))

    async def _leave_later(self, ask: AcquireRequest) -> None:
        await asyncio.sleep(_LATER * random.uniform(0.5, 1.0))
        self.leaving.post(ask)

    async def _find_out(self, ask: Acquisition[Any]) -> None:
        waited, ask.wait = ask.wait, False
        ends_at = boottime() + ask.ttl
        while boottime() < ends_at:
            await asyncio.sleep(random.uniform(0.5, 1.0) * min(ask.ttl / 4, 5.0))
            try:
                (answer,) = await self._store.acquire([ask])
            except Exception as error:
                self._observer.database_error(error)
                continue
            if answer.status not in ("locked", "changing"):  # then it is perhaps our own request that goes on there
                ask.wait = waited  # then it may have a place in the queue, too
                self.give_back(ask, answer, boottime())
                return

    async def _release(self, grant: GrantIdentity, pause: float) -> None:
        """Until the store has it, or the lease has expired there. What is cancelled stays in `_undelivered`."""
        ends_at = boottime() + grant.ttl
        while boottime() < ends_at:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(max(2 * pause, _SOON), _LATER)
            try:
                answer, sent_at = await self.releasing.submit(grant)
            except Exception as error:
                self._observer.database_error(error)
                continue
            if answer.status != "locked":
                self.settle(grant, answer, sent_at)
                if answer.status == "lost":  # perhaps handed on by a request that nobody heard of again
                    self._follow_up(grant.name)
                    self._queue.wake(grant.name)
                break
        self._undelivered.pop(grant.grant_id, None)

    def _follow_up(self, name: str) -> None:
        """Whoever was told may have died, or stand still, at that very moment."""
        if not self._offered:
            asyncio.get_running_loop().call_later(_FOLLOW_UP, self._offer_again)
        self._offered[name] = boottime() + _FOLLOW_UP

    def _offer_again(self) -> None:
        now = boottime()
        names = [name for name, due_at in self._offered.items() if due_at <= now]
        for name in names:
            del self._offered[name]
        if self._offered and not self._closed:
            asyncio.get_running_loop().call_later(min(self._offered.values()) - now, self._offer_again)
        if names:
            self._begin(self._offer(sorted(names)))

    async def _offer(self, names: Sequence[str]) -> None:
        try:
            for grant_id in await self._store.offer(names):
                self._queue.call(grant_id)
        except errors.InterlockError as error:
            self._observer.database_error(error)

    async def _abandon(self, asks: Sequence[AcquireRequest]) -> list[None]:
        for grant_id in await self._store.abandon(asks):
            self._queue.call(grant_id)
        return [None] * len(asks)

    async def _sweep(self) -> None:
        try:
            while await self._store.sweep(_UNUSED) > 0:
                pass
        except errors.InterlockError as error:
            self._observer.database_error(error)

    async def _forget(self, prefix: str, older_than: float) -> None:
        try:
            while isinstance(self._store, RecordDeletion) and await self._store.delete_records(prefix, older_than) > 0:
                pass
        except errors.InterlockError as error:
            self._observer.database_error(error)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
