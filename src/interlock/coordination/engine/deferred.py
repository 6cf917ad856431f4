"""Requests to the store that no caller waits for: releases, withdrawals from the queue, and the cleanup of old rows.

A release that cannot be delivered is retried for as long as the lease could be held. If the answer to an acquire
request was lost, the store may have granted the lease: the request is sent again for as long, with the same grant_id.
If it is granted, the lease is released.
"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.engine.batch import Batcher
from interlock.coordination.engine.queue import WaitQueue
from interlock.coordination.engine.retry import UNKNOWN, is_unknown
from interlock.coordination.observation.observer import Observer
from interlock.stores.capabilities import RecordDeletion
from interlock.stores.leases import AcquireAnswer, AcquireRequest, GrantIdentity, LeaseStore, ReleaseAnswer

if TYPE_CHECKING:
    from interlock.coordination.engine.request import LeaseRequest

_OFFER_AGAIN_AFTER = 1.05
"""Seconds after which a lease is offered again: a notified waiter has one second to acquire it, then the next waiter is
notified."""
_SOON, _LATER = 0.02, 1.0
_SWEEP_EVERY = 3600.0
_UNUSED = 7 * 86400.0


class OrphanedGrant(NamedTuple):
    """A grant without a holder."""

    name: str
    token: int
    grant_id: UUID
    ttl: float


class DeferredRequests:
    """Runs requests in the background of one engine, until `close`."""

    def __init__(self, store: LeaseStore, observer: Observer, queue: WaitQueue) -> None:
        self.releases: Batcher[GrantIdentity, ReleaseAnswer] = Batcher(
            store.release, self.after_release, self._release_failed, send_abandoned=True
        )
        self.withdrawals: Batcher[AcquireRequest, None] = Batcher(
            self._withdraw, lambda *_: None, self._withdrawal_failed, send_abandoned=True
        )
        self._store = store
        self._observer = observer
        self._queue = queue
        self._running: set[asyncio.Task[None]] = set()
        self._undelivered: dict[UUID, GrantIdentity] = {}
        self._offered: dict[str, float] = {}
        self._closed = False
        self._delete_at: dict[str, float] = {}
        self._sweep_at = boottime() + _SWEEP_EVERY * random.random()

    @property
    def is_idle(self) -> bool:
        return not self._running and not self._offered

    async def close(self) -> None:
        """Deliver the requests that can be delivered at once; cancel the others."""
        self._closed = True
        for batcher in (self.releases, self.withdrawals):
            await batcher.drain()
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        for grant in list(self._undelivered.values()):
            self.releases.post(grant)  # once more, on a new connection: otherwise the lease is held until it expires
        await self.releases.drain()

    def release_unclaimed(self, request: "LeaseRequest[Any]", answer: AcquireAnswer, sent_at: float) -> None:
        """Handle an answer whose caller has stopped waiting: release the grant, or leave the queue."""
        if answer.status == "granted":
            grant = OrphanedGrant(request.name, answer.token, request.grant_id, request.ttl)
            self.releases.post(grant)
        elif request.wait:
            self.withdrawals.post(request)

    def request_failed(self, request: "LeaseRequest[Any]", error: Exception) -> None:
        """Handle the error of a request whose caller has stopped waiting."""
        if is_unknown(error) and not request.in_doubt:
            request.in_doubt = True
            self.resolve(request)

    def resolve(self, request: "LeaseRequest[Any]") -> None:
        """Handle a lost answer: the store may have granted the lease. Find out, and release it."""
        self._start(self._resolve(request))

    def release_lost(self, grant: GrantIdentity) -> None:
        """Release a lost lease: if the store still records it as held, the next waiter then need not wait for its
        expiry."""
        self._release_until_delivered(grant, 0.0)

    def release_later(self, grant: GrantIdentity) -> None:
        self._release_until_delivered(grant, _SOON)

    def _release_until_delivered(self, grant: GrantIdentity, pause: float) -> None:
        self._undelivered[grant.grant_id] = grant
        self._start(self._release(grant, pause))

    def delete_old_records(self, prefix: str, older_than: float) -> None:
        """Delete old records, about once an hour; if `older_than` is shorter, about once in that time."""
        if (now := boottime()) >= self._delete_at.get(prefix, 0.0):
            self._delete_at[prefix] = now + min(_SWEEP_EVERY, older_than) * random.uniform(0.5, 1.5)
            self._start(self._delete_old_records(prefix, older_than))

    def after_release(self, grant: GrantIdentity, answer: ReleaseAnswer, sent_at: float) -> None:
        """Notify the next waiter if it belongs to this process. Retry the release if the lease's row was locked."""
        if answer.offered is not None:
            if answer.elsewhere:
                self._offer_later(grant.name)
            else:
                self._queue.notify(answer.offered, answer.handed)
        elif answer.status == "locked":
            self.release_later(grant)
        if sent_at > self._sweep_at:
            self._sweep_at = sent_at + _SWEEP_EVERY * random.uniform(0.5, 1.5)
            self._start(self._sweep())

    def _release_failed(self, grant: GrantIdentity, error: Exception) -> None:
        self._observer.database_error(error)
        self.release_later(grant)

    def _withdrawal_failed(self, request: AcquireRequest, error: Exception) -> None:
        """Try to leave the queue again: the place in the queue lives as long as the subscription, and leases would be
        offered to it in vain."""
        self._observer.database_error(error)
        if isinstance(error, (errors.LockNotAvailable, *UNKNOWN)):
            self._start(self._withdraw_later(request))

    async def _withdraw_later(self, request: AcquireRequest) -> None:
        await asyncio.sleep(_LATER * random.uniform(0.5, 1.0))
        self.withdrawals.post(request)

    async def _resolve(self, request: "LeaseRequest[Any]") -> None:
        waited, request.wait = request.wait, False
        ends_at = boottime() + request.ttl
        while boottime() < ends_at:
            await asyncio.sleep(random.uniform(0.5, 1.0) * min(request.ttl / 4, 5.0))
            try:
                (answer,) = await self._store.acquire([request])
            except Exception as error:
                self._observer.database_error(error)
                continue
            if answer.status not in ("locked", "changing"):  # these may come of the first request, still under way
                request.wait = waited  # then it may also have a place in the queue
                self.release_unclaimed(request, answer, boottime())
                return

    async def _release(self, grant: GrantIdentity, pause: float) -> None:
        """Retry the release until the store has answered, or the lease has expired. A cancelled retry stays in
        `_undelivered`."""
        ends_at = boottime() + grant.ttl
        while boottime() < ends_at:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(max(2 * pause, _SOON), _LATER)
            try:
                answer, sent_at = await self.releases.submit(grant)
            except Exception as error:
                self._observer.database_error(error)
                continue
            if answer.status != "locked":
                self.after_release(grant, answer, sent_at)
                if answer.status == "lost":  # an earlier release whose answer was lost may have offered it to a waiter
                    self._offer_later(grant.name)
                    self._queue.wake_first(grant.name)
                break
        self._undelivered.pop(grant.grant_id, None)

    def _offer_later(self, name: str) -> None:
        """Offer the lease again after a second: the notified waiter may have died or stopped just then."""
        if not self._offered:
            asyncio.get_running_loop().call_later(_OFFER_AGAIN_AFTER, self._offer_again)
        self._offered[name] = boottime() + _OFFER_AGAIN_AFTER

    def _offer_again(self) -> None:
        now = boottime()
        names = [name for name, due_at in self._offered.items() if due_at <= now]
        for name in names:
            del self._offered[name]
        if self._offered and not self._closed:
            asyncio.get_running_loop().call_later(min(self._offered.values()) - now, self._offer_again)
        if names:
            self._start(self._offer(sorted(names)))

    async def _offer(self, names: Sequence[str]) -> None:
        try:
            for grant_id in await self._store.offer(names):
                self._queue.notify(grant_id)
        except errors.InterlockError as error:
            self._observer.database_error(error)

    async def _withdraw(self, requests: Sequence[AcquireRequest]) -> list[None]:
        for grant_id in await self._store.abandon(requests):
            self._queue.notify(grant_id)
        return [None] * len(requests)

    async def _sweep(self) -> None:
        try:
            while await self._store.sweep(_UNUSED) > 0:
                pass
        except errors.InterlockError as error:
            self._observer.database_error(error)

    async def _delete_old_records(self, prefix: str, older_than: float) -> None:
        try:
            while isinstance(self._store, RecordDeletion) and await self._store.delete_records(prefix, older_than) > 0:
                pass
        except errors.InterlockError as error:
            self._observer.database_error(error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
