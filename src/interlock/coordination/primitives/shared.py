"""A lease that many may read under, or one may write under.

Who may do what. Everybody comes through the door, which is the lease by the name itself, in order of arrival. A reader
takes a slot there, and gives the door to the next; it has come in only if it still had the door when it had the slot. A
writer keeps the door, and waits until it has had every slot once: then no reader is left inside, none of their guarded
transactions is open, and none can come. So neither readers nor writers starve, and the writer's guard is the door's.

Replicas that do not agree on the number of slots, as between two releases. The record beside the door is never below
the number of a reader that may be inside: whoever has a greater one writes it down before it takes a slot, and a writer
waits for as many slots as are written there. Once it has had them all nobody is inside, and it writes down its own
number if that is smaller. Only who has the door writes the record, which the same statement decides; so a reader that
still has the door when it has its slot knows that nobody has changed it since.

What a crash leaves behind. Of a reader: its slot, until its ttl is over; at the door, a short while more. Of a writer:
the door, until its ttl is over.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import AsyncLease
from interlock.coordination.lease.name import part
from interlock.coordination.lease.times import Duration
from interlock.coordination.primitives.admission import AdmissionSettings
from interlock.errors import LeaseLost, LeaseNested, LeaseTimeout, NotSupported
from interlock.stores.capabilities import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine

G = TypeVar("G", bound=AsyncGrant)
T = TypeVar("T")

_PASSING = 0.25
"""So long whoever does not want to wait gives others to get through the door: they may just be passing it."""


class SharedSettings(AdmissionSettings):
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
        self._refuse_holder(engine, owner, (self.name, *self.names))

    def _refuse_holder(self, engine: "Engine", owner: object, names: Iterable[str]) -> None:
        if any(engine.holds(owner, name) for name in names):
            raise LeaseNested(
                f"The lease {self.name!r} is held by this very task or thread, which would wait for itself for ever: "
                "pass the grant on instead of acquiring again.",
                name=self.name,
            )

    async def _noted(self, engine: "Engine") -> int:
        """How many slots those who are inside may know of; for whoever has the door."""
        try:
            record = await engine.records.read(self._record)
        except NotSupported:  # there are no transactions: there replicas have to agree, and so they do
            return len(self.names)
        return 0 if record is None else int(json.loads(record.value))

    async def _note(self, engine: "Engine", door: AsyncGrant) -> None:
        with suppress(LeaseLost):  # it is seen to be lost by whoever has the door
            await engine.records.write(self._record, json.dumps(len(self.names)), door)

    @property
    def _record(self) -> str:
        return part(self.name, "readers")


class ReadSettings(SharedSettings):
    __slots__ = ()

    async def holders(self, engine: "Engine") -> list[HeldLease]:
        return await self._numbered(engine)

    async def try_acquire(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        try:
            door = await engine.acquire(self.name, self.passing, None, object(), _PASSING, AsyncGrant)
        except LeaseTimeout:
            return None
        try:
            await self._announce(engine, door)
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
                await self._announce(engine, door)
                grant = await self._at_the_door(engine, owner, kind)
                if not door.lost:
                    return grant
                engine.drop(grant)  # a writer may have come in before it
            finally:
                engine.drop(door)

    async def _announce(self, engine: "Engine", door: AsyncGrant) -> None:
        """Let writers that know of fewer slots wait for all of ours."""
        if await self._noted(engine) < len(self.names):
            await self._note(engine, door)


class WriteSettings(SharedSettings):
    __slots__ = ()

    async def try_acquire(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        try:
            door = await engine.acquire(self.name, self.timing, self.metadata, owner, _PASSING, kind)
        except (LeaseTimeout, LeaseNested):
            return None
        try:
            is_alone = await self._found_alone(engine, door)
        except BaseException:
            engine.drop(door)
            raise
        if is_alone and not door.lost:
            return door
        engine.drop(door)
        return None

    async def _enter(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        while True:
            door = await engine.acquire(self.name, self.timing, self.metadata, owner, None, kind)
            try:
                await self._outlast_all(engine, door)
            except BaseException:
                engine.drop(door)
                raise
            if not door.lost:
                return door
            engine.drop(door)

    async def _found_alone(self, engine: "Engine", door: AsyncGrant) -> bool:
        noted = await self._noted(engine)
        if not all(await self._each(self._is_free(engine, name) for name in self._slots(noted))):
            return False
        await self._correct(engine, door, noted)
        return True

    async def _outlast_all(self, engine: "Engine", door: AsyncGrant) -> None:
        noted = await self._noted(engine)
        slots = self._slots(noted)
        self._refuse_holder(engine, door.owner, slots)
        await self._each(self._outlast(engine, name) for name in slots)
        await self._correct(engine, door, noted)

    def _slots(self, noted: int) -> Sequence[str]:
        """Ours, and those that others know of."""
        return [*self.names, *(self._slot(number) for number in range(len(self.names), noted))]

    async def _correct(self, engine: "Engine", door: AsyncGrant, noted: int) -> None:
        """Nobody is inside: writers need not wait any more for slots that only others knew of."""
        if noted > len(self.names):
            await self._note(engine, door)

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

    def __init__(self, engine: "Callable[[], Engine]", reading: ReadSettings, writing: WriteSettings) -> None:
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
