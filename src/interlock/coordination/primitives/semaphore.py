"""A lease with several slots: a semaphore. Each slot is a lease, and the lease by the name itself is the door to them.

Who may do what. Whoever comes looks at the door first. If somebody is there, or waits to come there, it queues behind
them; so nobody is served before another who had come when it looked. If nobody is, it may take a slot that is free, one
statement, and finding none it queues for the door too. One at a time has the door, in order of arrival: it takes a slot
that is free, or else is in the queues of all slots at once. The first slot that comes is kept; what else came at that
moment is given back, and the door to the next. Where those who wait cannot be told (DynamoDB, a pooler), the door is
not looked at: they ask now and then, and would keep free slots from everybody else meanwhile.

What a crash leaves behind. Of a holder: its slot, until its ttl is over. Of the one at the door: places in queues,
which are seen to be dead, and the door, for which the others wait as long as its own, short ttl. Losing the door does
no harm: whoever comes after it is behind it in every slot's queue.

Replicas that do not agree on the number of slots, as between two releases, hold no more than the greatest of them.
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
    """What a lease with slots is asked for with, and how."""

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
        """Any slot: perhaps it is free. Else one that is."""
        if await engine.records.is_contended(self.name):
            return None
        return await self._some(engine, owner, kind)

    async def holders(self, engine: "Engine") -> list[HeldLease]:
        return await self._numbered(engine)

    async def _enter(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        if grant := await self.try_acquire(engine, owner, kind):
            return grant
        door = await engine.acquire(self.name, self.passing, None, owner, None, AsyncGrant)
        try:
            return await self._at_the_door(engine, owner, kind)
        finally:
            engine.drop(door)

    def _refuse_nesting(self, engine: "Engine", owner: object) -> None:
        if all(engine.holds(owner, name) for name in self.names):
            raise LeaseNested(
                f"All slots of the lease {self.name!r} are held by this very task or thread, which would wait for "
                "itself for ever: pass a grant on instead of acquiring again.",
                name=self.name,
            )
