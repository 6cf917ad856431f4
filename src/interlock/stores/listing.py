"""What a store tells about its leases; not every store needs to."""

from typing import NamedTuple, Protocol


class HeldLease(NamedTuple):
    """A lease that is held now. Times are seconds since 1970 by the store's clock; `remaining` is what is left."""

    name: str
    token: int
    holder: str | None
    host: str | None
    pid: int | None
    metadata: str | None
    acquired_at: float
    remaining: float


class Listing(Protocol):
    async def held(self, prefix: str) -> list[HeldLease]:
        """Those whose names begin so, by name."""
