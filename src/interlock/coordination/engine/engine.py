"""The engine: acquires, renews and releases the leases of a root object on one event loop.

It composes the parts of this package. Each part calls only those below it:

    Acquisitions                        acquire: request, wait in the queue, make the grant
    LeaseRequests, LeaseRecords         send requests until they are answered; read and write records
    Releases, HandOvers, MinimumHolds   end grants
    Renewals                            renew grants, or end the trust in them
    StoreConnections                    open until they are idle, or closed
    DeferredRequests                    requests that no caller waits for
    HeldGrants, WaitQueue               the grants and the waiters of this process
    Batcher, RetryPolicy                share statements; retry
    the store                           `interlock.stores.leases.LeaseStore`

If the process dies, its leases expire, and other processes see that its waiters are dead.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar, cast

from interlock import errors, process
from interlock.coordination.backends.choice import GuardsByItem, LeaseDatabase, OpenStore
from interlock.coordination.engine.acquisition import Acquisitions
from interlock.coordination.engine.connections import StoreConnections, closed_error
from interlock.coordination.engine.deferred import DeferredRequests
from interlock.coordination.engine.handover import HandOvers
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.engine.minimum_hold import MinimumHolds
from interlock.coordination.engine.queue import WaitQueue
from interlock.coordination.engine.records import LeaseRecords
from interlock.coordination.engine.release import Releases, Response
from interlock.coordination.engine.renewal import Renewals
from interlock.coordination.engine.request import LeaseRequest, LeaseRequests
from interlock.coordination.engine.retry import RetryPolicy
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import LeaseTiming
from interlock.coordination.observation.observer import Observer

G = TypeVar("G", bound=AsyncGrant)


class Engine:
    """The leases of a root object on one event loop. Connections that were idle for `idle_after` seconds are closed."""

    def __init__(self, store: OpenStore, observer: Observer, *, database: LeaseDatabase, idle_after: float) -> None:
        self.pid = process.pid
        self.database = database
        self._store = store
        self._queue = queue = WaitQueue(store)
        self._held = held = HeldGrants(observer)
        self._deferred = deferred = DeferredRequests(store, observer, queue)
        self._connections = connections = StoreConnections(store, queue, held, deferred, idle_after)
        retry = RetryPolicy(store, observer)
        self._renewals = Renewals(store, observer, held)
        self._releases = Releases(observer, held, deferred)
        self._minimum_holds = MinimumHolds(store, observer, held, self._renewals)
        self._hand_overs = HandOvers(store, observer, held, deferred)
        self._requests = LeaseRequests(store, self._releases, deferred, retry, connections)
        self._acquisitions = Acquisitions(
            observer, self._requests, queue, held, self._renewals, self._releases, deferred, connections
        )
        self.records = LeaseRecords(store, held, deferred, retry, connections)

    @property
    def closed(self) -> bool:
        return self._connections.closed

    @property
    def held(self) -> int:
        return len(self._held)

    def holds(self, owner: object, name: str) -> bool:
        """Return True if that task or thread holds the lease, as far as this process knows."""
        return self._held.includes(owner, name)

    def try_acquire(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, kind: type[G]
    ) -> Coroutine[Any, Any, G | None]:
        """Return the grant, or None if the lease is held or has waiters."""
        return self._acquisitions.wait(LeaseRequest(self, name, timing, metadata, owner, 0.0, kind, only_try=True))

    def acquire(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, timeout: float | None, kind: type[G]
    ) -> Coroutine[Any, Any, G]:
        """Wait in the queue, and return the grant. Raises `LeaseTimeout` after the timeout."""
        granted = self._acquisitions.wait(LeaseRequest(self, name, timing, metadata, owner, timeout, kind))
        return cast("Coroutine[Any, Any, G]", granted)  # None is the result of an `only_try`

    def acquire_any(
        self, whole: str, names: Sequence[str], timing: LeaseTiming, metadata: str | None, owner: object, kind: type[G]
    ) -> Coroutine[Any, Any, G]:
        """Wait in the queues of all these leases, and return the first grant. Observers see one lease, named
        `whole`."""
        requests = [LeaseRequest(self, name, timing, metadata, owner, None, kind) for name in names]
        return self._acquisitions.wait_for_any(whole, requests)

    def begin_acquire(
        self,
        name: str,
        timing: LeaseTiming,
        metadata: str | None,
        owner: object,
        timeout: float | None,
        kind: type[G],
        *,
        only_try: bool = False,
    ) -> LeaseRequest[G]:
        """Send a thread's request for the lease. `collect` or `wait` takes the response, or `give_up` ends the
        request."""
        request = LeaseRequest(self, name, timing, metadata, owner, timeout, kind, only_try=only_try)
        self._acquisitions.begin(request)
        return request

    def collect(self, request: LeaseRequest[G]) -> G | None:
        """Return the grant if the response has come and grants the lease. Returns None otherwise: then call `wait`."""
        return self._acquisitions.collect(request)

    def wait(self, request: LeaseRequest[G]) -> Coroutine[Any, Any, G | None]:
        return self._acquisitions.wait(request)

    def give_up(self, request: LeaseRequest[Any]) -> None:
        """End a request whose caller will not call `wait`. Does nothing if the caller has called `wait`."""
        self._acquisitions.give_up(request)

    def renew_soon(self, grant: AsyncGrant) -> None:
        """Renew a grant at once instead of at its due time, so that a loss is noticed now."""
        self._renewals.renew_soon(grant)

    def release(self, grant: AsyncGrant) -> Coroutine[Any, Any, bool]:
        """Release the lease and wait for the answer. Returns False if the lease was not held any more."""
        return self._releases.release(grant)

    def begin_release(self, grant: AsyncGrant) -> Response | None:
        """Send a thread's release of the lease; `finish_release` takes the response. Returns None if the lease was not
        held any more."""
        return self._releases.begin(grant)

    def finish_release(self, grant: AsyncGrant, response: Response) -> bool:
        """Finish a release whose response has come. Returns False if the lease was not held any more."""
        return self._releases.finish(grant, response)

    def release_unconfirmed(self, grant: AsyncGrant) -> bool:
        """Send the release and do not wait for the answer. Returns False if the lease is known to be lost."""
        return self._releases.release_unconfirmed(grant)

    def drop(self, grant: AsyncGrant) -> None:
        """Release a grant and do not wait for the answer. Does nothing if the grant has ended."""
        self._releases.drop(grant)

    def confirm(self, grant: AsyncGrant) -> Coroutine[Any, Any, None]:
        """Wait until the store has confirmed a renewal for the whole ttl. If the grant is lost, the wait never ends."""
        return self._minimum_holds.confirm(grant)

    def end_after_minimum(self, grant: AsyncGrant, minimum: float) -> Coroutine[Any, Any, None]:
        """End a grant; its lease stays held until `minimum` seconds after it was acquired. Does nothing if that time
        has passed."""
        return self._minimum_holds.end(grant, minimum)

    def hand_over(self, grant: AsyncGrant) -> Coroutine[Any, Any, bool]:
        """Give the lease to the first waiter. Returns False if there is no waiter: then this grant keeps the lease."""
        return self._hand_overs.hand_over(grant)

    def guard_item(self, grant: AsyncGrant) -> dict[str, Any]:
        if not isinstance(self._store, GuardsByItem):
            raise errors.GuardRefused(
                f"The lease {grant.name!r} is not kept in DynamoDB, so it has no guard item: guard a transaction with "
                "grant.guard(connection).",
                name=grant.name,
            )
        return self._store.guard_item(grant)

    async def close(self) -> None:
        """Release all grants that are still held, and close the connections."""
        self._connections.closed = True
        self._requests.fail_all(closed_error())
        for grant in self._held:
            self._held.lose(grant, "closed")
            self._deferred.releases.post(grant)
        self._queue.wake_all()
        await asyncio.sleep(0)  # callers that were just answered release their grants
        await self._renewals.close()
        await self._requests.drain()
        await self._hand_overs.drain()
        await self._deferred.close()
        await self._connections.close()
