"""Requests that read a store: the leases that are held now, and the records that were written under a lease."""

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
"""The number of retries of a read before its error reaches the caller."""


class LeaseRecords:
    """Reads and writes the records of one engine. A request whose answer was lost is sent again, which does no harm."""

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
        """Return True if the lease is held, or if a waiter that the store notifies waits for it."""
        store = self._store
        return isinstance(store, ContentionCheck) and await self._request(lambda: store.is_contended(name), _RETRIES)

    async def read(self, key: str) -> StoredRecord | None:
        return await self._request(lambda: self._store.read(key), _RETRIES)

    async def write(self, key: str, value: str, grant: AsyncGrant) -> None:
        """Write the record if the grant is current; otherwise raise `LeaseLost`. Retries for as long as the grant is
        trusted."""

        async def write() -> bool:
            grant.check()
            return await self._store.write(key, value, grant)

        if not await self._request(write, None):
            self._held.lose(grant, "refused")
            raise grant.error()

    def require_record_deletion(self) -> None:
        if not isinstance(self._store, RecordDeletion):
            raise errors.ConfigurationError(
                "Interlock cannot delete old records in this database: keep them without limit (keep_for=None), "
                "and delete them with the database's own means."
            )

    def delete_old_soon(self, prefix: str, older_than: float) -> None:
        """Delete old records whose keys begin with `prefix`, unless they were deleted a short time ago."""
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
