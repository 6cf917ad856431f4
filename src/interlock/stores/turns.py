"""That a newcomer can see whether others came before it; only a store that tells those who wait can offer that."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Turns(Protocol):
    async def is_wanted(self, name: str) -> bool:
        """Whether somebody has that lease, or waits for it and will be told. False where those who wait ask now and
        then: nobody else is to be kept waiting for them."""
