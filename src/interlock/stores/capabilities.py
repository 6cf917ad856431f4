"""The capabilities of a store beside leases. Not every store has all of them: each needs more of a database."""

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
        """The leases that are held and whose names begin with `prefix`, by name."""


@runtime_checkable
class ContentionCheck(Protocol):
    """Only a store that notifies its waiters has it."""

    async def is_contended(self, name: str) -> bool:
        """Return True if the lease is held, or a waiter that will be notified waits for it.

        False where waiters poll: a newcomer is not to be kept waiting for them.
        """


class StoredRecord(NamedTuple):
    """`token` is that of the grant that wrote it; `written_at` is in seconds since 1970 by the store's clock."""

    key: str
    token: int
    value: str
    written_at: float


class RecordStore(Protocol):
    """Values that holders of leases write under keys."""

    async def read(self, key: str) -> StoredRecord | None: ...

    async def write(self, key: str, value: str, grant: GrantIdentity) -> bool:
        """Write `value`, which is JSON, if the grant is current; one statement decides both. False: it is not."""


@runtime_checkable
class RecordDeletion(Protocol):
    async def delete_records(self, prefix: str, older_than: float) -> int:
        """Delete records whose keys begin with `prefix` and that are older than so many seconds by the store's clock.

        Deletes a thousand at most. Returns the number of deleted records.
        """
