"""Leases that stay held for a minimum time after they were acquired, even if their work has ended sooner.

Such a lease is acquired and renewed with a ttl of at least the minimum time. The deciding statement is a renewal for
the whole ttl, which the store has to confirm before the work begins. This renewal sets the row's expiry, by the store's
clock, to a moment that is not before the end of the minimum time; each later renewal does the same. The acquire alone
is not enough, because a lease that was handed over is held for only one second at first. A crash between any two steps
leaves:

- Before the acquire: nothing. Between the acquire and the first renewal: a held lease, which expires; the work was not
  begun.
- While the work goes on: a lease that is held for a whole ttl since the last renewal, which covers the minimum time.

The lease ends in one of these ways:

- The work ends before the minimum time: a last renewal replaces the release. Its ttl is the rest of the minimum time,
  so the lease expires sooner than otherwise, but never before the end of that time. No process has to wait for it.
- The last renewal fails, or the process dies before it: the expiry set by the renewal before stays, which is later.
- The work ends after the minimum time: the lease is released as always.
- The lease is lost: it is not kept for the minimum time. A lease that an operator broke is free once it is released.
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
"""The share of a time by which this machine's clock and the store's clock may drift apart."""
_SHORTEST_TTL = 0.1
_ATTEMPTS = 5
_PAUSE = 0.1


class MinimumHolds:
    """Ends those grants of one engine whose leases have to stay held for a minimum time."""

    def __init__(self, store: LeaseStore, observer: Observer, held: HeldGrants, renewals: Renewals) -> None:
        self._store = store
        self._observer = observer
        self._held = held
        self._renewals = renewals

    async def confirm(self, grant: AsyncGrant) -> None:
        """Wait until the store has confirmed a renewal for the whole ttl. If the grant is lost, the wait never ends."""
        renewed = asyncio.Event()
        grant.on_renewed(lambda _: renewed.set())
        self._renewals.renew_soon(grant)
        await renewed.wait()

    async def end(self, grant: AsyncGrant, minimum: float) -> None:
        """End the grant, and leave the lease held until `minimum` seconds after it was acquired.

        Does nothing if that time has passed, or if the grant is lost: then the caller has to release the grant.
        """
        if _remaining(grant, minimum) <= 0 or grant.lost or not grant.finish("released"):
            return
        self._held.remove(grant)
        self._observer.released(grant.name, grant.token, boottime() - grant.acquired_at)
        if not await self._renew_last(grant, minimum):
            grant.correct("refused")

    async def _renew_last(self, grant: AsyncGrant, minimum: float) -> bool:
        """Renew the lease a last time, so that it expires when `minimum` has passed. Returns False if the lease was
        lost."""
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
    """Return the seconds until `minimum` has passed since the grant was acquired; the result is rather too large than
    too small.

    `acquired_at` was taken when the answer arrived: the store granted the lease before that.
    """
    return (minimum - (boottime() - grant.acquired_at)) * (1 + _DRIFT)
