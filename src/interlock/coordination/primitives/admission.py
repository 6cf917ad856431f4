"""Primitives made of numbered leases (slots), with an admission lease in front of the slots.

The admission lease has the primitive's own name. A waiter holds the admission lease while it acquires a slot, so one
waiter at a time acquires a slot, in order of arrival.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import CompositeSettings
from interlock.coordination.lease.name import part, parts, whole_name
from interlock.coordination.lease.times import Duration, LeaseTiming
from interlock.errors import ConfigurationError, LeaseTimeout
from interlock.stores.capabilities import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine

G = TypeVar("G", bound=AsyncGrant)

_MOST = 1000
_LONGEST_ADMISSION = 3.0
"""The other waiters wait for at most so many seconds after the holder of the admission lease has died."""
_MOST_ATTEMPTS = 8


class AdmissionSettings(CompositeSettings):
    """The settings of a primitive with slots. `names` are the names of the slots, `prefix` is the common part of these
    names, and `option` is the user's name for `count`."""

    __slots__ = ("admission_timing", "names", "prefix")

    def __init__(
        self,
        name: str,
        prefix: str,
        count: int,
        option: str,
        ttl: Duration,
        renew_every: Duration | None,
        request_timeout: float | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(whole_name(name), ttl, renew_every, request_timeout, metadata)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= _MOST:
            raise ConfigurationError(f"{option}={count!r}: use a whole number from 1 to {_MOST}.")
        self.prefix = prefix
        self.names = [self._slot(number) for number in range(count)]
        self.admission_timing = LeaseTiming.of(min(self.timing.ttl, _LONGEST_ADMISSION))

    async def acquire(self, engine: "Engine", owner: object, timeout: float | None, kind: type[G]) -> G:
        self._refuse_nesting(engine, owner)
        try:
            async with asyncio.timeout(timeout or None):
                if timeout != 0:
                    return await self._wait_in_turn(engine, owner, kind)
                if grant := await self.try_acquire(engine, owner, kind):
                    return grant
                raise TimeoutError
        except TimeoutError:
            raise LeaseTimeout(
                f"The lease {self.name!r} was not acquired within {timeout:g} s: "
                f"`interlock lease list {self.name}` shows its holders.",
                name=self.name,
            ) from None

    def _slot(self, number: int) -> str:
        return part(self.name, self.prefix, number)

    def _refuse_nesting(self, engine: "Engine", owner: object) -> None:
        """Raise `LeaseNested` if the owner (a task or a thread) would wait for itself."""
        raise NotImplementedError

    async def _wait_in_turn(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        """Wait for the primitive in order of arrival, and acquire it."""
        raise NotImplementedError

    async def _held_slots(self, engine: "Engine") -> list[HeldLease]:
        return await engine.records.held(parts(self.name, self.prefix))

    async def _acquire_slot(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        """Acquire a free slot, or wait for the first slot that becomes free. The caller has to hold the admission
        lease."""
        return await self._try_slots(engine, owner, kind) or await engine.acquire_any(
            self.name, self.names, self.timing, self.metadata, owner, kind
        )

    async def _try_slots(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        """Try to acquire a random slot, then slots that the store reports as free. Returns None if other processes were
        faster."""
        if grant := await self._try(engine, random.choice(self.names), owner, kind):
            return grant
        held = {lease.name for lease in await self._held_slots(engine)}
        free = [name for name in self.names if name not in held]
        for name in random.sample(free, min(len(free), _MOST_ATTEMPTS)):
            if grant := await self._try(engine, name, owner, kind):
                return grant
        return None

    async def _try(self, engine: "Engine", name: str, owner: object, kind: type[G]) -> G | None:
        return await engine.try_acquire(name, self.timing, self.metadata, owner, kind)
