"""What is remembered under a key, and written by whoever holds a lease."""

from typing import NamedTuple, Protocol

from interlock.stores.leases import GrantIdentity


class StoredRecord(NamedTuple):
    """`token` is that of the grant that wrote it; `written_at` is in seconds since 1970 by the store's clock."""

    key: str
    token: int
    value: str
    written_at: float


class RecordStore(Protocol):
    async def read(self, key: str) -> StoredRecord | None: ...

    async def write(self, key: str, value: str, grant: GrantIdentity) -> bool:
        """Only while that grant is current, which the same statement decides. False: it is not. `value` is JSON."""
