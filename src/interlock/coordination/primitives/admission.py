"""What is made of numbered leases behind a door: the lease by the name itself, which they are come to through."""

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
_LONGEST = 3.0
"""So long everybody else waits when whoever is at the door dies."""
_TRIES = 8


class AdmissionSettings(CompositeSettings):
    """`names` are those leases, `passing` the times of who only passes the door. `option` is how users give `count`."""

    __slots__ = ("names", "passing", "what")

    def __init__(
        self,
        name: str,
        what: str,
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
        self.what = what
        self.names = [self._slot(number) for number in range(count)]
        self.passing = LeaseTiming.of(min(self.timing.ttl, _LONGEST))

    async def acquire(self, engine: "Engine", owner: object, timeout: float | None, kind: type[G]) -> G:
        self._refuse_nesting(engine, owner)
        try:
            async with asyncio.timeout(timeout or None):
                if timeout != 0:
                    return await self._enter(engine, owner, kind)
                if grant := await self.try_acquire(engine, owner, kind):
                    return grant
                raise TimeoutError
        except TimeoutError:
            raise LeaseTimeout(
                f"The lease {self.name!r} was not to be had within {timeout:g} s: "
                f"`interlock lease list {self.name}` says who holds it.",
                name=self.name,
            ) from None

    def _slot(self, number: int) -> str:
        return part(self.name, self.what, number)

    def _refuse_nesting(self, engine: "Engine", owner: object) -> None:
        """Raise `LeaseNested` if that task or thread would wait for itself."""
        raise NotImplementedError

    async def _enter(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        """In one's turn."""
        raise NotImplementedError

    async def _numbered(self, engine: "Engine") -> list[HeldLease]:
        return await engine.records.held(parts(self.name, self.what))

    async def _at_the_door(self, engine: "Engine", owner: object, kind: type[G]) -> G:
        """One of the numbered leases, for whoever has the door: one that is free, or else the first that comes."""
        return await self._some(engine, owner, kind) or await engine.acquire_any(
            self.name, self.names, self.timing, self.metadata, owner, kind
        )

    async def _some(self, engine: "Engine", owner: object, kind: type[G]) -> G | None:
        """Any of them: perhaps it is free. Else one that is seen to be, if nobody else is quicker."""
        if grant := await self._try(engine, random.choice(self.names), owner, kind):
            return grant
        held = {lease.name for lease in await self._numbered(engine)}
        free = [name for name in self.names if name not in held]
        for name in random.sample(free, min(len(free), _TRIES)):
            if grant := await self._try(engine, name, owner, kind):
                return grant
        return None

    async def _try(self, engine: "Engine", name: str, owner: object, kind: type[G]) -> G | None:
        return await engine.try_acquire(name, self.timing, self.metadata, owner, kind)
