"""What a store remembers: which leases are held, and records that were written under one of them."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from interlock import errors
from interlock.coordination.backends.choice import OpenStore
from interlock.coordination.engine.deferred import DeferredRequests
from interlock.coordination.engine.retry import RetryPolicy
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.reasons import Loss
from interlock.stores.capabilities import ContentionCheck, HeldLease, RecordDeletion, StoredRecord

T = TypeVar("T")

_LOOKS = 5
"""How often a look at the store is tried again before whoever wants it is told that it failed."""


class LeaseRecords:
    """Of one engine. Everything here may be sent twice, and is if its answer got lost. `before` is called each time."""

    def __init__(
        self,
        store: OpenStore,
        retry: RetryPolicy,
        deferred: DeferredRequests,
        before: Callable[[], None],
        lose: Callable[[AsyncGrant, Loss], None],
    ) -> None:
        self._store = store
        self._retry = retry
        self._deferred = deferred
        self._before = before
        self._lose = lose

    async def held(self, prefix: str) -> list[HeldLease]:
        """The leases that are held now, whose names begin so."""
        return await self._ask(lambda: self._store.held(prefix), _LOOKS)

    async def is_contended(self, name: str) -> bool:
        """Whether somebody has that lease, or waits for it and will be told."""
        store = self._store
        return isinstance(store, ContentionCheck) and await self._ask(lambda: store.is_contended(name), _LOOKS)

    async def read(self, key: str) -> StoredRecord | None:
        return await self._ask(lambda: self._store.read(key), _LOOKS)

    async def write(self, key: str, value: str, grant: AsyncGrant) -> None:
        """Raises `LeaseLost` if the grant is not current; as long as it is trusted, it is tried again."""

        async def write() -> bool:
            grant.check()
            return await self._store.write(key, value, grant)

        if not await self._ask(write, None):
            self._lose(grant, "refused")
            raise grant.error()

    def require_forgetting(self) -> None:
        if not isinstance(self._store, RecordDeletion):
            raise errors.ConfigurationError(
                "This database does not delete old records by itself: say that they are kept for ever (keep_for=None), "
                "and delete them where the database offers it."
            )

    def forget_soon(self, prefix: str, older_than: float) -> None:
        """Records whose keys begin so and that are older, unless that was done a short time ago."""
        self._deferred.forget(prefix, older_than)

    async def _ask(self, ask: Callable[[], Awaitable[T]], most: int | None) -> T:
        failures = 0
        while True:
            self._before()
            try:
                answer = await ask()
            except errors.StoreError as error:
                await self._retry.wait_or_raise(error, failures, most)
                failures += 1
            else:
                self._retry.was_reached = True
                return answer
