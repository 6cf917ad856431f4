"""A lease with several slots: a semaphore. Each slot is a lease. The lease with the name itself is the admission lease.

**Order.** A caller first checks the admission lease. If that lease is held or has waiters, the caller waits in its
queue, so no caller overtakes another that had arrived before the check. Otherwise the caller may take a free slot, in
one statement; if it finds no free slot, it waits in the queue of the admission lease too. The holder of the admission
lease takes a free slot, or else waits in the queues of all slots at once. It keeps the first slot that it gets,
releases any other slot that came at the same moment, and releases the admission lease to the next caller. Where the
store cannot notify waiters (DynamoDB, a pooler), callers do not check the admission lease: its waiters poll, and
between two polls they would keep free slots from other callers.

**After a crash.** A dead holder's slot is taken until its ttl is over. A caller that dies while it holds the admission
lease leaves queue entries and the admission lease. The store recognises the queue entries as dead; the other callers
wait for the admission lease until its short ttl is over. The loss of the admission lease does no harm: the next holder
is behind the former holder in every slot's queue.

Replicas may have different numbers of slots, as between two releases: together they hold no more than the greatest
number.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import Duration
from interlock.coordination.primitives.admission import AdmissionSettings
from interlock.errors import LeaseNested
from interlock.stores.capabilities import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine

G = TypeVar("G", bound=AsyncGrant)


class SlotSettings(AdmissionSettings):
    """The settings of a lease with slots, and the code that acquires a slot."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        slots: int,
        ttl: Duration,
        renew_every: Duration | None,
        request_timeout: float | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(name, "slot", slots, "slots", ttl, renew_every, request_timeout, metadata)

    async def try_acquire(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        """Returns a grant of a free slot. Returns None if no slot is free or if other callers wait."""
        if await engine.records.is_contended(self.name):
            return None
        return await self._try_slots(engine, owner, kind)

    async def holders(self, engine: "Engine") -> list[HeldLease]:
        return await self._held_slots(engine)

    async def _wait_in_turn(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        if grant := await self.try_acquire(engine, owner, kind):
            return grant
        admission = await engine.acquire(self.name, self.admission_timing, None, owner, None, AsyncGrant)
        try:
            return await self._acquire_slot(engine, owner, kind)
        finally:
            engine.drop(admission)

    def _refuse_nesting(self, engine: "Engine", owner: object) -> None:
        if all(engine.holds(owner, name) for name in self.names):
            raise LeaseNested(
                f"All slots of the lease {self.name!r} are held by this same task or thread, which would wait for "
                "itself without end: pass a grant on instead of acquiring again.",
                name=self.name,
            )
