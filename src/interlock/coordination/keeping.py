"""Renewals: one statement a round for everything that this process holds, and the moment when trust ends.

Two timers, both for the earliest grant only. One starts a round: it renews every grant that is due, or will be before
half of its interval is over, so that grants which were made at different times come to share their rounds. The other
ends the trust in grants that were not renewed in time, whatever a round that hangs may still bring: trust that has
run out does not come back.
"""

import asyncio
import math
from collections.abc import Callable, Iterator

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.clockwatch import ClockWatch
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.observing import Observer
from interlock.coordination.reasons import Loss
from interlock.stores.leases import LeaseStore, RenewAnswer

_LARGEST = 20_000
_SOON = 0.1
_LONGEST_SLEEP = 1.0
_SPREAD = 8
"""Leases share a statement if the longest ttl among them is at most so many times the shortest."""


class Keeper:
    """Keeps every grant that is added until it is removed or lost. `lose` is told of each that is."""

    def __init__(self, store: LeaseStore, observer: Observer, lose: Callable[[AsyncGrant, Loss], None]) -> None:
        self.grants: set[AsyncGrant] = set()
        self._store = store
        self._observer = observer
        self._lose = lose
        self._clock = ClockWatch()
        self._timeline: int | None = None
        self._round: asyncio.Task[None] | None = None
        self._due = _Alarm(self._start_round)
        self._end = _Alarm(self._end_trust)

    def add(self, grant: AsyncGrant) -> None:
        if not self.grants:
            self._clock = ClockWatch()  # what happened to the clock while nothing was held is of no consequence
        self.grants.add(grant)
        self._due.not_after(grant.renew_at)
        self._end.not_after(grant.trusted_until)

    def remove(self, grant: AsyncGrant) -> None:
        self.grants.discard(grant)

    async def close(self) -> None:
        self._due.stop()
        self._end.stop()
        if self._round is not None:
            self._round.cancel()
            await asyncio.wait([self._round])

    def _start_round(self) -> None:
        if self._round is None and self.grants:
            self._round = asyncio.get_running_loop().create_task(self._renew_all())

    async def _renew_all(self) -> None:
        try:
            now = boottime()
            due = [grant for grant in self.grants if grant.renew_at <= now + grant.timing.renew_every / 2]
            for timeout, batch in _alike(due):
                await self._renew(batch, timeout)
        finally:
            self._round = None
            if self.grants:
                self._due.not_after(min(grant.renew_at for grant in self.grants))

    async def _renew(self, due: list[AsyncGrant], timeout: float) -> None:
        sent_at = boottime()
        for grant in due:
            grant.renew_at = sent_at + min(grant.timing.renew_every / 4, 1.0)  # unless this one succeeds
        try:
            answer = await self._store.renew(due, timeout)
        except (errors.InterlockError, TimeoutError) as error:
            self._observer.renewal_failed(error)
            return
        received_at = boottime()
        self._observer.renewed(len(due) - len(answer.lost) - len(answer.locked), received_at - sent_at)
        self._apply(due, answer, sent_at)
        self._compare_clocks(answer.clock, sent_at, received_at)

    def _apply(self, due: list[AsyncGrant], answer: RenewAnswer, sent_at: float) -> None:
        before, self._timeline = self._timeline, answer.timeline
        why: Loss = "refused" if before in (None, answer.timeline) else "failover"
        lost, locked = set(answer.lost), set(answer.locked)
        now = boottime()
        for place, grant in enumerate(due):
            if grant.ended:
                continue
            if place in lost:
                self._lose(grant, why)
            elif place in locked:
                grant.renew_at = now + min(_SOON, grant.timing.renew_every)
            elif now >= grant.trusted_until:
                self._lose(grant, "expired")
            else:
                grant.trusted_until = sent_at + grant.timing.ttl - grant.timing.margin
                grant.renew_at = sent_at + grant.timing.renew_every
                if grant.watchers is not None:
                    grant.tell_renewed()

    def _compare_clocks(self, clock: float, sent_at: float, received_at: float) -> None:
        """A clock that was set may have let a lease expire early, or keep it too long: what we trust is not so."""
        step = abs(self._clock.stepped_by(clock, sent_at, received_at))
        for grant in [grant for grant in self.grants if step > grant.timing.margin]:
            self._lose(grant, "clock")

    def _end_trust(self) -> None:
        now = boottime()
        for grant in [grant for grant in self.grants if grant.trusted_until <= now]:
            self._lose(grant, "expired")
        if self.grants:
            self._end.not_after(min(grant.trusted_until for grant in self.grants))


def _alike(due: list[AsyncGrant]) -> Iterator[tuple[float, list[AsyncGrant]]]:
    """Batches of grants that can share a time-out: a short lease's must not cost a long one its renewal."""
    while due:
        shortest = min(grant.timing.request_timeout for grant in due)
        longest = _SPREAD * shortest
        batch = [grant for grant in due if grant.timing.request_timeout <= longest]
        due = [grant for grant in due if grant.timing.request_timeout > longest] if len(batch) < len(due) else []
        for start in range(0, len(batch), _LARGEST):
            yield shortest, batch[start : start + _LARGEST]


class _Alarm:
    """Calls at the earliest moment that was asked for since it last called.

    The event loop's clock stands still while the machine is suspended, and ours does not: so it looks again and again.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def not_after(self, moment: float) -> None:
        if moment < self._at:
            self.stop()
            self._set(moment)

    def _set(self, moment: float) -> None:
        self._at = moment
        pause = min(max(0.0, moment - boottime()), _LONGEST_SLEEP)
        self._timer = asyncio.get_running_loop().call_later(pause, self._ring)

    def stop(self) -> None:
        self._at = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        if boottime() < self._at:
            self._set(self._at)
            return
        self._at = math.inf
        self._timer = None
        self._call()
