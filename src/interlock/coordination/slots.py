"""A lease with several slots: a semaphore. Each slot is a lease, and the lease by the name itself is the door to them.

Who may do what. Whoever finds a slot free takes it, one statement, and gives way to whoever is in that slot's queue.
Who finds none queues for the door, which is fair; one at a time has it, and is in the queues of all slots at once. So
nobody gets past it there: a newcomer can slip in only in the moment between one at the door and the next. The first
slot that comes is kept; what else came at that moment is given back, and the door to the next.

What a crash leaves behind. Of a holder: its slot, until its ttl is over. Of the one at the door: places in queues,
which are seen to be dead, and the door, for which the others wait as long as its own, short ttl. Losing the door does
no harm: whoever comes after it is behind it in every slot's queue.

Replicas that do not agree on the number of slots, as between two releases, hold no more than the greatest of them.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.coordination.door import DoorSettings
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.name import parts
from interlock.coordination.timing import Duration
from interlock.errors import LeaseNested, LeaseTimeout
from interlock.stores.listing import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.engine import Engine

G = TypeVar("G", bound=AsyncGrant)

_TRIES = 8


class SlotSettings(DoorSettings):
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
        return await self._try(engine, random.choice(self.names), owner, kind) or await self._free(engine, owner, kind)

    async def acquire(self, engine: "Engine", owner: object, timeout: float | None, kind: type[G]) -> G:
        if all(engine.holds(owner, name) for name in self.names):
            raise LeaseNested(
                f"All slots of the lease {self.name!r} are held by this very task or thread, which would wait for "
                "itself for ever: pass a grant on instead of acquiring again.",
                name=self.name,
            )
        try:
            async with asyncio.timeout(timeout or None):
                if grant := await self.try_acquire(engine, owner, kind):
                    return grant
                if timeout == 0:
                    raise TimeoutError
                return await self._in_turn(engine, owner, kind)
        except TimeoutError:
            raise LeaseTimeout(
                f"No slot of the lease {self.name!r} was to be had within {timeout:g} s: "
                f"`interlock lease list {self.name}` says who holds them.",
                name=self.name,
            ) from None

    async def holders(self, engine: "Engine") -> list[HeldLease]:
        return await engine.list_held(parts(self.name, "slot"))

    async def _in_turn(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        door = await engine.acquire(self.name, self.passing, None, owner, None, AsyncGrant)
        try:
            return await self._free(engine, owner, kind) or await engine.acquire_any(
                self.name, self.names, self.timing, self.metadata, owner, kind
            )
        finally:
            engine.drop(door)

    async def _free(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        """A slot that is seen to be free, if nobody else is quicker."""
        held = {lease.name for lease in await self.holders(engine)}
        free = [name for name in self.names if name not in held]
        for name in random.sample(free, min(len(free), _TRIES)):
            if grant := await self._try(engine, name, owner, kind):
                return grant
        return None

    async def _try(self, engine: "Engine", name: str, owner: object, kind: type[G]) -> G | None:
        return await engine.try_acquire(name, self.timing, self.metadata, owner, kind)
