"""The hand-over of leases to the next waiter.

Once the request is sent, the next waiter may hold the lease, and may be notified before this process gets the answer.
So this process does not trust the grant until the answer says that the grant keeps the lease. The grant keeps it if no
process waits for the lease.
"""

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from interlock.clock import boottime
from interlock.coordination.engine.batch import Batcher
from interlock.coordination.engine.deferred import DeferredRequests
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.engine.retry import is_unknown
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.observation.observer import Observer
from interlock.stores.leases import LeaseStore, PartlyFailed, ReleaseAnswer

_KEPT = ("kept", "locked")


class HandOvers:
    """All hand-overs of one engine."""

    def __init__(self, store: LeaseStore, observer: Observer, held: HeldGrants, deferred: DeferredRequests) -> None:
        self._observer = observer
        self._held = held
        self._deferred = deferred
        self._batcher: Batcher[AsyncGrant, ReleaseAnswer] = Batcher(
            partial(_hand_over, store), self._settle, self._fail, send_abandoned=True
        )

    async def drain(self) -> None:
        await self._batcher.drain()

    async def hand_over(self, grant: AsyncGrant) -> bool:
        """Give the lease to the first waiter. Returns False if there is no waiter: then this grant keeps the lease."""
        while True:
            if not grant.is_handing_over:  # another task may be doing it: both get the same result
                grant.check()
            response = self._batcher.submit(grant)
            try:
                answer, sent_at = await response
            except asyncio.CancelledError:
                if response.done() and not response.cancelled():  # both came at once: another may hold the lease by now
                    self._finish(grant, response)
                raise
            except Exception as error:
                if not is_unknown(error):
                    raise
                self._fail(grant, error)
                raise grant.error() from error
            if answer.status != "locked":
                break
            await asyncio.sleep(random.uniform(0.005, 0.02))
        self._settle(grant, answer, sent_at)
        if answer.status == "lost":
            raise grant.error()
        return answer.status == "released"

    def _settle(self, grant: AsyncGrant, answer: ReleaseAnswer, sent_at: float) -> None:
        if answer.status == "lost":
            self._held.lose(grant, "refused")
        elif answer.status == "released":
            if grant.finish("released"):
                self._observer.handed_over(grant.name, grant.token, boottime() - grant.acquired_at)
            self._held.remove(grant)
            self._deferred.after_release(grant, answer, sent_at)

    def _finish(self, grant: AsyncGrant, response: "asyncio.Future[tuple[ReleaseAnswer, float]]") -> None:
        if isinstance(error := response.exception(), Exception):
            self._fail(grant, error)
        else:
            self._settle(grant, *response.result())

    def _fail(self, grant: AsyncGrant, error: Exception) -> None:
        """Handle a failed hand-over. Another process may hold the lease, so the grant counts as lost. The lease is also
        released, in case no process got it."""
        self._observer.database_error(error)
        if is_unknown(error):
            self._held.lose(grant, "refused")
            self._deferred.release_later(grant)


async def _hand_over(store: LeaseStore, grants: Sequence[AsyncGrant]) -> Sequence[ReleaseAnswer]:
    for grant in grants:
        grant.is_handing_over = True
    try:
        answers = await store.hand_over(grants)
    except PartlyFailed as partly:
        _trust_again(grants, partly.outcomes)
        raise
    except Exception as error:
        _trust_again(grants, [error] * len(grants))
        raise
    _trust_again(grants, answers)
    return answers


def _trust_again(grants: Sequence[AsyncGrant], outcomes: Sequence[object]) -> None:
    for grant, outcome in zip(grants, outcomes, strict=True):
        grant.is_handing_over = not _was_kept(outcome)


def _was_kept(outcome: object) -> bool:
    """Return True if the grant keeps the lease. A request that the store refused changed nothing, so the grant keeps
    the lease then too."""
    if isinstance(outcome, ReleaseAnswer):
        return outcome.status in _KEPT
    return isinstance(outcome, Exception) and not is_unknown(outcome)
