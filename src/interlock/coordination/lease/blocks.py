"""Makes ``await lock.acquire()`` and ``async with lock.acquire()`` work from one method, and keeps the open blocks of a
shared lock."""

from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any, Generic, Protocol, Self, TypeVar


class _Held(Protocol):
    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None: ...


G = TypeVar("G", bound=_Held)


class Acquisition(Generic[G]):
    """An acquisition that has not begun. Await it to get the grant. Or enter it with ``async with``: then the grant
    ends with the block."""

    def __init__(self, acquisition: Coroutine[Any, Any, G]) -> None:
        self._acquisition = acquisition
        self._grant: G | None = None

    def __await__(self) -> Generator[Any, Any, G]:
        return self._acquisition.__await__()

    async def __aenter__(self) -> G:
        self._grant = await self._acquisition
        return await self._grant.__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._grant is not None
        await self._grant.__aexit__(kind, error, trace)


H = TypeVar("H")


class OpenBlocks(Generic[H]):
    """The grants of all blocks that have not ended yet. The blocks may belong to any number of tasks or threads."""

    def __init__(self) -> None:
        self._open: list[tuple[object, H]] = []

    def add(self, owner: object, grant: H) -> H:
        self._open.append((owner, grant))
        return grant

    def newest(self, owner: object) -> tuple[object, H]:
        """Return the owner's newest entry. If the owner has none, return the newest entry of all: a generator may be
        ended by another task than the one that began it."""
        newest = self._open[-1]
        if newest[0] is owner:  # the usual case
            return newest
        return next((entry for entry in reversed(self._open) if entry[0] == owner), newest)

    def pop(self, owner: object) -> H:
        entry = self.newest(owner)
        self._open.remove(entry)  # it may not be the last any more
        return entry[1]

    def remove(self, entry: tuple[object, H]) -> None:
        """Remove the entry. Does nothing if the entry was removed before."""
        with suppress(ValueError):
            self._open.remove(entry)
