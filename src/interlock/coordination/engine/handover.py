"""Asking that leases be given to whoever waits for them.

From the moment it is asked, the next one may have it and may have been told so, before we are. So nobody here trusts
such a grant any more until the answer says that it was kept, which it is where nobody waits.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial

from interlock.clock import boottime
from interlock.coordination.engine.batch import Batcher
from interlock.coordination.engine.deferred import DeferredRequests, is_unknown
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.reasons import Loss
from interlock.coordination.observation.observer import Observer
from interlock.stores.leases import LeaseStore, PartlyFailed, ReleaseAnswer

_KEPT = ("kept", "locked")


class HandOvers:
    """Run by an engine. `lose` and `forget` are told of what is not held any more."""

    def __init__(
        self,
        store: LeaseStore,
        observer: Observer,
        deferred: DeferredRequests,
        lose: Callable[[AsyncGrant, Loss], None],
        forget: Callable[[AsyncGrant], None],
    ) -> None:
        self._observer = observer
        self._deferred = deferred
        self._lose = lose
        self._forget = forget
        self._batcher: Batcher[AsyncGrant, ReleaseAnswer] = Batcher(
            partial(_handed_over, store), self._settle, self._perhaps, send_abandoned=True
        )

    async def drain(self) -> None:
        await self._batcher.drain()

    async def hand_over(self, grant: AsyncGrant) -> bool:
        """False: nobody waits for it, and it is kept."""
        while True:
            if not grant.is_handing_over:  # by another task: then this one is told the same
                grant.check()
            response = self._batcher.submit(grant)
            try:
                answer, sent_at = await response
            except asyncio.CancelledError:
                if response.done() and not response.cancelled():  # both came at once: it may be another's by now
                    self._see(grant, response)
                raise
            except Exception as error:
                if not is_unknown(error):
                    raise
                self._perhaps(grant, error)
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
            self._lose(grant, "refused")
        elif answer.status == "released":
            if grant.finish("released"):
                self._observer.handed_over(grant.name, grant.token, boottime() - grant.acquired_at)
            self._forget(grant)
            self._deferred.settle(grant, answer, sent_at)

    def _see(self, grant: AsyncGrant, response: "asyncio.Future[tuple[ReleaseAnswer, float]]") -> None:
        if isinstance(error := response.exception(), Exception):
            self._perhaps(grant, error)
        else:
            self._settle(grant, *response.result())

    def _perhaps(self, grant: AsyncGrant, error: Exception) -> None:
        """Another may have it, so it is not ours any more; if nobody has it, it is given back."""
        self._observer.database_error(error)
        if is_unknown(error):
            self._lose(grant, "refused")
            self._deferred.release_later(grant)


async def _handed_over(store: LeaseStore, grants: Sequence[AsyncGrant]) -> Sequence[ReleaseAnswer]:
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
    """Also where the request was refused: then nothing was changed."""
    if isinstance(outcome, ReleaseAnswer):
        return outcome.status in _KEPT
    return isinstance(outcome, Exception) and not is_unknown(outcome)
