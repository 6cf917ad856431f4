"""Renewals: one statement per round for all grants of this process, and the moment when the trust in a grant ends.

There are two timers, each set for the earliest grant. The first timer starts a round. A round renews every grant that
is due now, or within half of its renewal interval, so that grants made at different times come to share their rounds.
The second timer ends the trust in grants that were not renewed in time, even if a round that hangs may still renew
them: trust that has ended does not come back.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.engine.clock_watch import ClockWatch
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import LeaseTiming
from interlock.coordination.observation.observer import Observer
from interlock.stores.leases import LeaseStore, RenewAnswer

_LARGEST = 20_000
_SOON = 0.1
_LONGEST_SLEEP = 1.0
_SPREAD = 8
"""Leases share a statement if their longest request_timeout is at most so many times the shortest."""


class Renewals:
    """Renews each grant from its `add` until the grant is lost or is removed from the held grants."""

    def __init__(self, store: LeaseStore, observer: Observer, held: HeldGrants) -> None:
        self._store = store
        self._observer = observer
        self._held = held
        self._clock = ClockWatch()
        self._timeline: int | None = None
        self._round: asyncio.Task[None] | None = None
        self._due = _Alarm(self._start_round)
        self._end = _Alarm(self._end_trust)

    def add(self, grant: AsyncGrant) -> None:
        if not self._held.by_timing:
            self._clock = ClockWatch()  # a step of the clock while nothing was held does not matter
        self._held.add(grant)
        self._due.not_after(grant.renew_at)
        self._end.not_after(grant.trusted_until)

    def renew_soon(self, grant: AsyncGrant) -> None:
        """Renew a grant at once, instead of at its due time."""
        if not grant.ended:
            grant.renew_at = boottime()
            self._due.not_after(grant.renew_at)

    async def close(self) -> None:
        self._due.stop()
        self._end.stop()
        if self._round is not None:
            self._round.cancel()
            await asyncio.wait([self._round])

    def _start_round(self) -> None:
        if self._round is None and self._held.by_timing:
            self._round = asyncio.get_running_loop().create_task(self._renew_all())

    async def _renew_all(self) -> None:
        try:
            now = boottime()
            due = {
                timing: [grant for grant in grants if grant.renew_at <= now + timing.renew_every / 2]
                for timing, grants in self._held.by_timing.items()
            }
            for batch in _together(due):
                await self._renew(batch)
        finally:
            self._round = None
            if self._held.by_timing:
                self._due.not_after(min(grant.renew_at for grant in self._held))

    async def _renew(self, due: "_Batch") -> None:
        grants = [grant for _, same_timing in due for grant in same_timing]
        sent_at = boottime()
        try:
            answer = await self._store.renew(grants, min(timing.request_timeout for timing, _ in due))
        except errors.InterlockError as error:
            for timing, same_timing in due:
                for grant in same_timing:
                    left = max(grant.trusted_until - sent_at, 4 * _SOON)
                    grant.renew_at = sent_at + min(timing.renew_every, left, 4.0) / 4
            self._observer.renewal_failed(error)
            return
        received_at = boottime()
        self._observer.renewed(len(grants) - len(answer.lost) - len(answer.locked), received_at - sent_at)
        self._apply(due, grants, answer, sent_at)
        self._compare_clocks(answer.clock, sent_at, received_at)

    def _apply(self, due: "_Batch", grants: Sequence[AsyncGrant], answer: RenewAnswer, sent_at: float) -> None:
        before, self._timeline = self._timeline, answer.timeline
        now = boottime()
        exceptions = {grants[place] for place in (*answer.lost, *answer.locked)}
        for timing, same_timing in due:
            trusted_until = sent_at + timing.ttl - timing.margin
            renew_at = sent_at + timing.renew_every
            for grant in same_timing:
                if grant.trusted_until <= now:
                    self._held.lose(grant, "expired")
                elif grant not in exceptions:
                    grant.trusted_until = trusted_until
                    grant.renew_at = renew_at
                    if grant.renewal_callbacks is not None and not grant.ended:
                        grant.notify_renewed()
        for place, operator in answer.broken.items():
            grants[place].broken_by = operator
            self._held.lose(grants[place], "broken")
        for place in answer.lost:
            if not grants[place].is_handing_over:  # the answer to the hand-over says more
                self._held.lose(grants[place], "refused" if before in (None, answer.timeline) else "failover")
        for place in (*answer.lost, *answer.locked):
            grants[place].renew_at = now + min(_SOON, grants[place].timing.renew_every)

    def _compare_clocks(self, clock: float, sent_at: float, received_at: float) -> None:
        """End the trust in the held leases if the store's clock was set: the store may then let a lease expire too
        early, or hold it too long."""
        if step := abs(self._clock.stepped_by(clock, sent_at, received_at)):
            for grant in self._held:
                if step > grant.timing.margin:
                    self._held.lose(grant, "clock")

    def _end_trust(self) -> None:
        now = boottime()
        try:
            for grant in self._held:
                if grant.trusted_until <= now:
                    self._held.lose(grant, "expired")
        finally:  # also if a user's hook ends the thread: the other grants are still to be ended
            if self._held.by_timing:
                self._end.not_after(min(grant.trusted_until for grant in self._held))


_Batch = Sequence[tuple[LeaseTiming, Sequence[AsyncGrant]]]


def _together(due: Mapping[LeaseTiming, Sequence[AsyncGrant]]) -> Iterator[_Batch]:
    """Yield batches whose leases can share a timeout: the timeout of a short lease must not cost a long lease its
    renewal."""
    batch: list[tuple[LeaseTiming, Sequence[AsyncGrant]]] = []
    for timing in sorted(due, key=lambda timing: timing.request_timeout):
        if batch and timing.request_timeout > _SPREAD * batch[0][0].request_timeout:
            yield batch
            batch = []
        for start in range(0, len(due[timing]), _LARGEST):
            some = due[timing][start : start + _LARGEST]
            if batch and sum(len(same_timing) for _, same_timing in batch) + len(some) > _LARGEST:
                yield batch
                batch = []
            batch.append((timing, some))
    if batch:
        yield batch


class _Alarm:
    """Calls a function at the earliest of the moments that were set since the last call.

    The event loop's clock stands still while the machine is suspended, but `boottime()` does not. So a long sleep is
    divided into short ones.
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
        self._timer = asyncio.get_running_loop().call_later(pause, self._wake_up)

    def stop(self) -> None:
        self._at = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake_up(self) -> None:
        if boottime() < self._at:
            self._set(self._at)
            return
        self._at = math.inf
        self._timer = None
        self._call()
