"""The optional capabilities of a store. Each needs more of a database than leases do, so not every store has it."""

from typing import NamedTuple, Protocol, runtime_checkable

from interlock.stores.leases import GrantIdentity


class HeldLease(NamedTuple):
    """A lease that is held now. Times are seconds since 1970 by the store's clock; `remaining` is in seconds."""

    name: str
    token: int
    holder: str | None
    host: str | None
    pid: int | None
    metadata: str | None
    acquired_at: float
    remaining: float


class LeaseListing(Protocol):
    async def held(self, prefix: str) -> list[HeldLease]:
        """Returns the held leases whose names begin with `prefix`, sorted by name."""


@runtime_checkable
class ContentionCheck(Protocol):
    """A capability of stores that notify their waiters."""

    async def is_contended(self, name: str) -> bool:
        """Returns True if the lease is held, or a waiter that will be notified waits for it.

        A waiter that polls does not count: a new request does not have to wait for it. Behind a pooler, where every
        waiter polls, the result is always False.
        """


class StoredRecord(NamedTuple):
    """`token` belongs to the grant that wrote the record; `written_at` is seconds since 1970 by the store's clock."""

    key: str
    token: int
    value: str
    written_at: float


class RecordStore(Protocol):
    """Stores values that holders of leases write under keys."""

    async def read(self, key: str) -> StoredRecord | None: ...

    async def write(self, key: str, value: str, grant: GrantIdentity) -> bool:
        """Write `value` (JSON) if the grant is current, in one atomic step. Returns False if it is not current."""


@runtime_checkable
class RecordDeletion(Protocol):
    async def delete_records(self, prefix: str, older_than: float) -> int:
        """Delete records whose keys begin with `prefix` and that are older than `older_than` seconds.

        The store's clock decides. One call deletes a thousand records at most, and returns the number of them.
        """
