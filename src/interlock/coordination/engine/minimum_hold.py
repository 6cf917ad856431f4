"""Leases that stay held for a minimum time after they were acquired, though their work has ended sooner.

Such a lease is acquired, and renewed, with a ttl of at least that time. The deciding statement is a renewal for the
whole ttl, confirmed before the work begins: it sets the row's expiry, by the store's clock, to a moment that is not
before the end of the minimum time, and so does each later one. The acquire alone is not enough, because a lease that
was handed over is held for one second at first. What a crash leaves between any two steps:

- Before the acquire: nothing. Between the acquire and that renewal: a held lease without work, which expires; the work
  was not begun.
- While the work goes on: a lease that is held for a whole ttl since the last renewal, which covers the minimum time.
- The work ends in time, and the last renewal replaces the release. Its ttl is the rest of the minimum time, so it
  brings the expiry forward, never before the end of that time. No process has to wait for that end.
- The process dies before that last renewal, or it fails: the expiry of the renewal before it stays, which is later.
- The work ends after the minimum time: the lease is released as always.
- The lease is lost: nothing is kept. A lease that an operator broke is free once it is released.
"""

import asyncio

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.engine.deferred import OrphanedGrant
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.engine.renewal import Renewals
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.observation.observer import Observer
from interlock.stores.leases import LeaseStore

_DRIFT = 0.001
"""By how much of the time this machine's clock and the store's may come apart."""
_SHORTEST_TTL = 0.1
_ATTEMPTS = 5
_PAUSE = 0.1


class MinimumHolds:
    """Ends the grants of one engine whose leases stay held."""

    def __init__(self, store: LeaseStore, observer: Observer, held: HeldGrants, renewals: Renewals) -> None:
        self._store = store
        self._observer = observer
        self._held = held
        self._renewals = renewals

    async def confirm(self, grant: AsyncGrant) -> None:
        """Wait until a renewal for the whole ttl is confirmed; never returns if the grant is lost."""
        renewed = asyncio.Event()
        grant.on_renewed(lambda _: renewed.set())
        self._renewals.renew_soon(grant)
        await renewed.wait()

    async def end(self, grant: AsyncGrant, minimum: float) -> None:
        """End the grant, and leave the lease held until `minimum` seconds after it was acquired.

        Does nothing if that time is over, or if the grant is lost: then it is to be released.
        """
        if _remaining(grant, minimum) <= 0 or grant.lost or not grant.finish("released"):
            return
        self._held.remove(grant)
        self._observer.released(grant.name, grant.token, boottime() - grant.acquired_at)
        if not await self._renew_last(grant, minimum):
            grant.correct("refused")

    async def _renew_last(self, grant: AsyncGrant, minimum: float) -> bool:
        """Let the store end the grant when `minimum` has passed. Returns False if it was lost."""
        for _ in range(_ATTEMPTS):
            ttl = max(_remaining(grant, minimum), _SHORTEST_TTL)
            last = OrphanedGrant(grant.name, grant.token, grant.grant_id, ttl)
            try:
                answer = await self._store.renew([last], grant.timing.request_timeout)
            except errors.StoreError as error:
                self._observer.database_error(error)
            else:
                if not answer.locked:
                    return not answer.lost
            await asyncio.sleep(_PAUSE)
        return True


def _remaining(grant: AsyncGrant, minimum: float) -> float:
    """Seconds until `minimum` has passed since the grant was acquired; rather too many.

    `acquired_at` was taken when the answer arrived: the store granted the lease before that.
    """
    return (minimum - (boottime() - grant.acquired_at)) * (1 + _DRIFT)
