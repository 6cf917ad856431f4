"""``await lock.acquire()`` and ``async with lock.acquire() as grant`` from one method."""

from collections.abc import Coroutine, Generator
from typing import Any, Generic, Protocol, Self, TypeVar


class _Held(Protocol):
    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None: ...


G = TypeVar("G", bound=_Held)


class Acquiring(Generic[G]):
    """An acquisition that has not begun: await it for the grant, or enter it to have the grant end with the block."""

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
