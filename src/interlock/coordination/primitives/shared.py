"""A lease that several readers may hold at once, or one writer alone.

**Order.** Readers and writers acquire the admission lease, which is the lease with the name itself, in order of
arrival. A reader then acquires a slot and releases the admission lease. The reader counts as admitted only if it still
held the admission lease when it got the slot. A writer keeps the admission lease and acquires every slot once. After
that no reader is left, no guarded transaction of a reader is open, and no reader can be admitted. So neither readers
nor writers starve, and the writer's guard is the guard of the admission lease.

**Replicas with different numbers of slots**, as between two releases. A record beside the admission lease is never
below the number of slots of a reader that may be admitted: a replica with a greater number writes its number before it
takes a slot, and a writer waits for as many slots as the record says. Once the writer has had all of them, no reader is
left, and the writer records its own number if that is smaller. Only the holder of the admission lease can write the
record; the statement that writes also checks the lease. So for a reader that still holds the admission lease when it
gets its slot, the record has not changed since.

**After a crash.** A dead reader's slot is taken until its ttl is over, and the admission lease is taken for a short
time more. A dead writer holds the admission lease until its ttl is over.
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

_ADMISSION_TIMEOUT = 0.25
"""`try_acquire` waits for so many seconds: a reader that is being admitted holds the admission lease only for a moment.
"""


class SharedSettings(AdmissionSettings):
    """The common part of the settings of readers and the settings of writers."""

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
                f"The lease {self.name!r} is held by this same task or thread, which would wait for itself without "
                "end: pass the grant on instead of acquiring again.",
                name=self.name,
            )

    async def _recorded_slots(self, engine: "Engine") -> int:
        """Returns the recorded number of slots. The caller has to hold the admission lease."""
        try:
            record = await engine.records.read(self._record)
        except NotSupported:  # the store has no transactions: replicas have to agree on the number, so this is it
            return len(self.names)
        return 0 if record is None else int(json.loads(record.value))

    async def _record_slots(self, engine: "Engine", admission: AsyncGrant) -> None:
        with suppress(LeaseLost):  # the caller checks the admission lease afterwards
            await engine.records.write(self._record, json.dumps(len(self.names)), admission)

    @property
    def _record(self) -> str:
        return part(self.name, "readers")


class ReadSettings(SharedSettings):
    __slots__ = ()

    async def holders(self, engine: "Engine") -> list[HeldLease]:
        return await self._held_slots(engine)

    async def try_acquire(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        try:
            admission = await engine.acquire(
                self.name, self.admission_timing, None, object(), _ADMISSION_TIMEOUT, AsyncGrant
            )
        except LeaseTimeout:
            return None
        try:
            await self._raise_recorded_slots(engine, admission)
            grant = await self._try_slots(engine, owner, kind)
            if grant is not None and admission.lost:
                engine.drop(grant)
                return None
            return grant
        finally:
            engine.drop(admission)

    async def _wait_in_turn(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        while True:
            admission = await engine.acquire(self.name, self.admission_timing, None, object(), None, AsyncGrant)
            try:
                await self._raise_recorded_slots(engine, admission)
                grant = await self._acquire_slot(engine, owner, kind)
                if not admission.lost:
                    return grant
                engine.drop(grant)  # a writer may have been admitted before it
            finally:
                engine.drop(admission)

    async def _raise_recorded_slots(self, engine: "Engine", admission: AsyncGrant) -> None:
        """Raise the recorded number, so that writers with a smaller number of slots wait for all slots of this
        replica."""
        if await self._recorded_slots(engine) < len(self.names):
            await self._record_slots(engine, admission)


class WriteSettings(SharedSettings):
    __slots__ = ()

    async def try_acquire(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        try:
            admission = await engine.acquire(self.name, self.timing, self.metadata, owner, _ADMISSION_TIMEOUT, kind)
        except (LeaseTimeout, LeaseNested):
            return None
        try:
            is_exclusive = await self._try_exclude_readers(engine, admission)
        except BaseException:
            engine.drop(admission)
            raise
        if is_exclusive and not admission.lost:
            return admission
        engine.drop(admission)
        return None

    async def _wait_in_turn(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        while True:
            admission = await engine.acquire(self.name, self.timing, self.metadata, owner, None, kind)
            try:
                await self._wait_for_readers(engine, admission)
            except BaseException:
                engine.drop(admission)
                raise
            if not admission.lost:
                return admission
            engine.drop(admission)

    async def _try_exclude_readers(self, engine: "Engine", admission: AsyncGrant) -> bool:
        recorded = await self._recorded_slots(engine)
        if not all(await self._run_all(self._is_free(engine, name) for name in self._slots(recorded))):
            return False
        await self._lower_recorded_slots(engine, admission, recorded)
        return True

    async def _wait_for_readers(self, engine: "Engine", admission: AsyncGrant) -> None:
        recorded = await self._recorded_slots(engine)
        slots = self._slots(recorded)
        self._refuse_holder(engine, admission.owner, slots)
        await self._run_all(self._wait_for_slot(engine, name) for name in slots)
        await self._lower_recorded_slots(engine, admission, recorded)

    def _slots(self, recorded: int) -> Sequence[str]:
        """Return this replica's slots, and the further slots that the record counts."""
        return [*self.names, *(self._slot(number) for number in range(len(self.names), recorded))]

    async def _lower_recorded_slots(self, engine: "Engine", admission: AsyncGrant, recorded: int) -> None:
        """Lower the recorded number. No reader is left, so writers need not wait for more slots than this replica
        has."""
        if recorded > len(self.names):
            await self._record_slots(engine, admission)

    async def _wait_for_slot(self, engine: "Engine", name: str) -> None:
        """Acquire the slot once and drop it: after that no earlier holder can act under the slot."""
        engine.drop(await engine.acquire(name, self.admission_timing, None, object(), None, AsyncGrant))

    async def _is_free(self, engine: "Engine", name: str) -> bool:
        grant = await engine.try_acquire(name, self.admission_timing, None, object(), AsyncGrant)
        if grant is not None:
            engine.drop(grant)
        return grant is not None

    async def _run_all(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run all coroutines at once, so that their requests share a statement. After a failure or a cancellation, all
        are cancelled."""
        tasks = [asyncio.create_task(one) for one in work]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


class AsyncShared:
    """``async with catalog.read(): …`` and ``async with catalog.write(): …``; `read` and `write` return ordinary
    leases."""

    def __init__(self, engine: "Callable[[], Engine]", reading: ReadSettings, writing: WriteSettings) -> None:
        self._engine = engine
        self._reading = reading
        self._writing = writing

    @property
    def name(self) -> str:
        return self._writing.name

    def read(self) -> AsyncLease:
        """Return a lease that as many readers may hold at once as there are slots."""
        return AsyncLease(self._engine, self._reading)

    def write(self) -> AsyncLease:
        """Return a lease that one writer holds alone, without readers."""
        return AsyncLease(self._engine, self._writing)
