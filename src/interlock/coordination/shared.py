"""A lease that many may read under, or one may write under.

Who may do what. Everybody comes through the door, which is the lease by the name itself, in order of arrival. A reader
takes a slot there, and gives the door to the next; it has come in only if it still had the door when it had the slot. A
writer keeps the door, and waits until it has had every slot once: then no reader is left inside, none of their guarded
transactions is open, and none can come. So neither readers nor writers starve, and the writer's guard is the door's.

What a crash leaves behind. Of a reader: its slot, until its ttl is over; at the door, a short while more. Of a writer:
the door, until its ttl is over.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.coordination.door import DoorSettings
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.lease import AsyncLease
from interlock.coordination.timing import Duration
from interlock.errors import LeaseNested, LeaseTimeout
from interlock.stores.listing import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.engine import Engine

G = TypeVar("G", bound=AsyncGrant)
T = TypeVar("T")

_PASSING = 0.25
"""So long whoever does not want to wait gives others to get through the door: they may just be passing it."""


class SharedSettings(DoorSettings):
    """What both sides have in common."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        readers: int,
        ttl: Duration,
        request_timeout: float | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(name, "reader", readers, "readers", ttl, None, request_timeout, metadata)

    def _refuse_nesting(self, engine: "Engine", owner: object) -> None:
        if any(engine.holds(owner, name) for name in (self.name, *self.names)):
            raise LeaseNested(
                f"The lease {self.name!r} is held by this very task or thread, which would wait for itself for ever: "
                "pass the grant on instead of acquiring again.",
                name=self.name,
            )


class ReadingSettings(SharedSettings):
    __slots__ = ()

    async def holders(self, engine: "Engine") -> list[HeldLease]:
        return await self._numbered(engine)

    async def try_acquire(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        try:
            door = await engine.acquire(self.name, self.passing, None, object(), _PASSING, AsyncGrant)
        except LeaseTimeout:
            return None
        try:
            grant = await self._some(engine, owner, kind)
            if grant is not None and door.lost:
                engine.drop(grant)
                return None
            return grant
        finally:
            engine.drop(door)

    async def _enter(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        while True:
            door = await engine.acquire(self.name, self.passing, None, object(), None, AsyncGrant)
            try:
                grant = await self._at_the_door(engine, owner, kind)
                if not door.lost:
                    return grant
                engine.drop(grant)  # a writer may have come in before it
            finally:
                engine.drop(door)


class WritingSettings(SharedSettings):
    __slots__ = ()

    async def try_acquire(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        try:
            door = await engine.acquire(self.name, self.timing, self.metadata, owner, _PASSING, kind)
        except (LeaseTimeout, LeaseNested):
            return None
        try:
            left = await self._each(self._is_free(engine, name) for name in self.names)
        except BaseException:
            engine.drop(door)
            raise
        if all(left) and not door.lost:
            return door
        engine.drop(door)
        return None

    async def _enter(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        while True:
            door = await engine.acquire(self.name, self.timing, self.metadata, owner, None, kind)
            try:
                await self._each(self._outlast(engine, name) for name in self.names)
            except BaseException:
                engine.drop(door)
                raise
            if not door.lost:
                return door
            engine.drop(door)

    async def _outlast(self, engine: "Engine", name: str) -> None:
        """Have the slot once: nobody who had it before can act on it any more."""
        engine.drop(await engine.acquire(name, self.passing, None, object(), None, AsyncGrant))

    async def _is_free(self, engine: "Engine", name: str) -> bool:
        grant = await engine.try_acquire(name, self.passing, None, object(), AsyncGrant)
        if grant is not None:
            engine.drop(grant)
        return grant is not None

    async def _each(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """All at once, in one statement; if one fails, or we are cancelled, none goes on."""
        tasks = [asyncio.create_task(one) for one in work]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


class AsyncShared:
    """``async with catalog.read(): …`` and ``async with catalog.write(): …``; each is a lease like any other."""

    def __init__(self, engine: "Callable[[], Engine]", reading: ReadingSettings, writing: WritingSettings) -> None:
        self._engine = engine
        self._reading = reading
        self._writing = writing

    @property
    def name(self) -> str:
        return self._writing.name

    def read(self) -> AsyncLease:
        """Beside other readers, as many as there are slots."""
        return AsyncLease(self._engine, self._reading)

    def write(self) -> AsyncLease:
        """Alone."""
        return AsyncLease(self._engine, self._writing)
