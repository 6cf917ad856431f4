"""That what is remembered can be deleted when it is old; not every store needs to."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Forgetting(Protocol):
    async def forget(self, prefix: str, older_than: float) -> int:
        """Delete records whose keys begin so and that were written longer ago, in seconds, by the store's clock: a
        thousand at most. How many it were."""
