"""Reading a store: the leases that are held now, and the records that were written under a lease."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from interlock import errors
from interlock.coordination.backends.choice import OpenStore
from interlock.coordination.engine.connections import StoreConnections
from interlock.coordination.engine.deferred import DeferredRequests
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.engine.retry import RetryPolicy
from interlock.coordination.lease.grant import AsyncGrant
from interlock.stores.capabilities import ContentionCheck, HeldLease, RecordDeletion, StoredRecord

T = TypeVar("T")

_RETRIES = 5
"""A read is retried so often before its error reaches the caller."""


class LeaseRecords:
    """The records of one engine. Each request may be sent twice, and is if its answer was lost."""

    def __init__(
        self,
        store: OpenStore,
        held: HeldGrants,
        deferred: DeferredRequests,
        retry: RetryPolicy,
        connections: StoreConnections,
    ) -> None:
        self._store = store
        self._held = held
        self._deferred = deferred
        self._retry = retry
        self._connections = connections

    async def held(self, prefix: str) -> list[HeldLease]:
        """Return the leases that are held now and whose names begin with `prefix`."""
        return await self._request(lambda: self._store.held(prefix), _RETRIES)

    async def is_contended(self, name: str) -> bool:
        """Return True if the lease is held, or a waiter that is notified waits for it."""
        store = self._store
        return isinstance(store, ContentionCheck) and await self._request(lambda: store.is_contended(name), _RETRIES)

    async def read(self, key: str) -> StoredRecord | None:
        return await self._request(lambda: self._store.read(key), _RETRIES)

    async def write(self, key: str, value: str, grant: AsyncGrant) -> None:
        """Write while the grant is current, else raise `LeaseLost`. Retries as long as the grant is trusted."""

        async def write() -> bool:
            grant.check()
            return await self._store.write(key, value, grant)

        if not await self._request(write, None):
            self._held.lose(grant, "refused")
            raise grant.error()

    def require_record_deletion(self) -> None:
        if not isinstance(self._store, RecordDeletion):
            raise errors.ConfigurationError(
                "This database does not delete old records by itself: keep them without limit (keep_for=None), "
                "and delete them where the database offers it."
            )

    def delete_old_soon(self, prefix: str, older_than: float) -> None:
        """Delete old records whose keys begin with `prefix`, unless that was done a short time ago."""
        self._deferred.delete_old_records(prefix, older_than)

    async def _request(self, send: Callable[[], Awaitable[T]], most: int | None) -> T:
        failures = 0
        while True:
            self._connections.require_open()
            self._connections.use()
            try:
                answer = await send()
            except errors.StoreError as error:
                await self._retry.wait_or_raise(error, failures, most)
                failures += 1
            else:
                self._retry.was_reached = True
                return answer
