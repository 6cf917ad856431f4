"""The acquisition of a lease: request it, wait in the queue while another process holds it, and make the grant.

A process trusts a grant once the answer has come; the time of that trust counts from before the request was sent.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.engine.connections import StoreConnections
from interlock.coordination.engine.deferred import DeferredRequests
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.engine.queue import WaitQueue
from interlock.coordination.engine.release import Releases
from interlock.coordination.engine.renewal import Renewals
from interlock.coordination.engine.request import LeaseRequest, LeaseRequests
from interlock.coordination.engine.retry import PASSING
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.reasons import Reason
from interlock.coordination.observation.observer import Observer
from interlock.stores.leases import AcquireAnswer

G = TypeVar("G", bound=AsyncGrant)

_BRIEF_MARGIN = 0.1
_BRIEFLY_HELD = 0.05
"""A grant that came by a hand-over is renewed after so many seconds. Many such grants are released before that."""


class Acquisitions:
    """All acquisitions of one engine.

    An async caller calls `wait`. A thread calls `begin`, and `collect` when the response has come. Mostly the response
    is the grant, and no coroutine is needed; if it is not, the thread calls `wait` as well. A thread that stops before
    its call of `wait` calls `give_up`.
    """

    def __init__(
        self,
        observer: Observer,
        requests: LeaseRequests,
        queue: WaitQueue,
        held: HeldGrants,
        renewals: Renewals,
        releases: Releases,
        deferred: DeferredRequests,
        connections: StoreConnections,
    ) -> None:
        self._observer = observer
        self._requests = requests
        self._queue = queue
        self._held = held
        self._renewals = renewals
        self._releases = releases
        self._deferred = deferred
        self._connections = connections

    def begin(self, request: LeaseRequest[Any]) -> None:
        """Send the request; `collect` or `wait` takes its response."""
        if not request.only_try and self._held.includes(request.owner, request.name):
            raise errors.LeaseNested(
                f"The lease {request.name!r} is held by this same task or thread, which would wait for itself "
                "without end: pass the grant on instead of acquiring again.",
                name=request.name,
            )
        try:
            self._connections.require_open()
            if self._queue.is_subscribed and request.timeout != 0:
                self._enter_queue(request)
            request.response = self._requests.submit(request)
        except BaseException as error:
            self._leave_queue(request)
            self._fail(request, error)
            raise

    def collect(self, request: LeaseRequest[G]) -> G | None:
        """Return the grant if the response has come and grants the lease. Returns None otherwise: then call `wait`."""
        answered = self._requests.answered(request)
        if answered is None or answered[0].status != "granted":
            return None
        self._leave_queue(request)
        return self._grant(request, *answered)

    async def wait(self, request: LeaseRequest[G]) -> G | None:
        """Return the grant, or raise `LeaseTimeout` after the timeout. Returns None if the request is `only_try` and
        the lease is taken."""
        if not request.attempts:
            self.begin(request)
        try:
            if request.timeout:
                async with asyncio.timeout(max(0.0, request.timeout - (boottime() - request.started))):
                    answer, sent_at = await self._request_and_wait(request)
            else:
                answer, sent_at = await self._request_and_wait(request)
        except TimeoutError:
            name, why = request.name, request.last_error
            late = errors.LeaseTimeout(
                f"The lease {name!r} was not acquired within {request.timeout:g} s: "
                f"{why or f'`interlock lease show {name}` shows its holder.'}",
                name=name,
            )
            self._fail(request, late)
            raise late from why
        except BaseException as error:
            self._fail(request, error)
            raise
        if answer.status == "granted":
            return self._grant(request, answer, sent_at)
        self._report_failure(request, "busy", answer.holder)
        return None

    async def wait_for_any(self, name: str, requests: Sequence[LeaseRequest[G]]) -> G:
        """Wait in the queues of several leases at once, and return the first grant. Observers see one wait, for
        `name`."""
        started = boottime()
        try:
            request, answer, sent_at = await self._first_of(name, requests)
        except BaseException as error:
            self._observer.not_acquired(name, boottime() - started, 1, _reason(error))
            raise
        return self._grant(request, answer, sent_at)

    def give_up(self, request: LeaseRequest[Any]) -> None:
        """End a request whose caller will not call `wait`. Does nothing if the caller has called `wait`."""
        if request.response is not None:
            self._leave_queue(request)
            self._fail(request, asyncio.CancelledError())

    async def _request_and_wait(self, request: LeaseRequest[Any]) -> tuple[AcquireAnswer, float]:
        if request.entry is None:  # the lease may be free: no subscription is needed then
            may_wait = request.timeout != 0
            answer, sent_at = await self._requests.answer(request, retries=None if may_wait else 1)
            if answer.status == "granted" or request.only_try:
                return answer, sent_at
            if not may_wait:
                raise TimeoutError
            self._enter_queue(request)
        return await self._wait_in_queue(request)

    async def _wait_in_queue(self, request: LeaseRequest[Any], *, report: bool = True) -> tuple[AcquireAnswer, float]:
        """Request the lease, and wait in the queue while another process holds it. Without `report`, the observer gets
        no events from here: the caller has to report the wait."""
        assert request.entry is not None
        waits = False
        try:
            while True:
                await self._subscribe()
                answer, sent_at = await self._requests.answer(request)
                if answer.status == "granted":
                    return answer, sent_at
                if not report:
                    pass
                elif waits:
                    self._observer.still_waiting(request.name, answer.holder, boottime() - request.started)
                else:
                    self._observer.waiting(request.name, answer.holder)
                    waits = True
                await self._queue.wait(request.entry, answer)
                if handed_over := self._queue.handed_over(request.entry, answer, sent_at):
                    self._connections.require_open()
                    return handed_over, sent_at
        except BaseException:
            self._deferred.withdrawals.post(request)
            raise
        finally:
            self._leave_queue(request)
            if waits:
                self._observer.stopped_waiting()

    async def _subscribe(self) -> None:
        if self._queue.is_subscribed:
            return
        try:
            await self._queue.subscribe()
        except PASSING as error:  # the waiter polls until a subscription succeeds
            self._observer.database_error(error)

    def _enter_queue(self, request: LeaseRequest[Any]) -> None:
        request.wait = True
        request.entry = self._queue.enter(request)

    def _leave_queue(self, request: LeaseRequest[Any]) -> None:
        if request.entry is not None:
            self._queue.leave(request.entry)
            request.entry = None

    async def _first_of(
        self, name: str, requests: Sequence[LeaseRequest[G]]
    ) -> tuple[LeaseRequest[G], AcquireAnswer, float]:
        """Wait for the first granted request. The other requests leave their queues, and their grants that came at the
        same moment are released."""
        for each in requests:
            self._enter_queue(each)
        waits = [(each, asyncio.create_task(self._wait_in_queue(each, report=False))) for each in requests]
        self._observer.waiting(name, None)
        winner: LeaseRequest[G] | None = None
        try:
            await asyncio.wait([task for _, task in waits], return_when=asyncio.FIRST_COMPLETED)
            first, task = next(wait for wait in waits if wait[1].done())
            answer, sent_at = task.result()
            winner = first
            return first, answer, sent_at
        finally:
            self._observer.stopped_waiting()
            for each, task in waits:
                if each is not winner:
                    task.add_done_callback(partial(self._discard, each))
                    task.cancel()

    def _discard(self, request: LeaseRequest[Any], task: "asyncio.Task[tuple[AcquireAnswer, float]]") -> None:
        self._leave_queue(request)  # a task that was cancelled before its first step has not
        if not task.cancelled() and task.exception() is None:
            self._deferred.release_unclaimed(request, *task.result())
        elif request.in_doubt:
            self._deferred.resolve(request)

    def _fail(self, request: LeaseRequest[Any], error: BaseException) -> None:
        """End an acquisition that got no answer: report it, and release the grant if the store makes one later."""
        self._requests.discard_response(request)
        self._report_failure(request, _reason(error))

    def _report_failure(self, request: LeaseRequest[Any], reason: Reason, holder: str | None = None) -> None:
        waited = boottime() - request.started
        self._observer.not_acquired(request.name, waited, request.attempts, reason, holder)
        if request.in_doubt:
            self._deferred.resolve(request)

    def _grant(self, request: LeaseRequest[G], answer: AcquireAnswer, sent_at: float) -> G:
        """Make the grant, and renew it from now on."""
        timing, name = request.timing, request.name
        grant = request.kind(request.engine, name, answer.token, request.grant_id, timing, request.owner)
        if answer.brief:
            grant.trusted_until = sent_at + answer.remaining - min(timing.margin, _BRIEF_MARGIN)
            grant.renew_at = grant.acquired_at + _BRIEFLY_HELD
        else:
            grant.trusted_until = sent_at + answer.remaining - timing.margin
            grant.renew_at = min(sent_at + timing.renew_every, grant.trusted_until)
        self._renewals.add(grant)
        try:
            self._observer.granted(name, answer.token, grant.acquired_at - request.started, request.attempts)
        except BaseException:  # a user's hook ends the thread: no caller will get the grant
            self._releases.drop(grant)
            raise
        return grant


def _reason(error: BaseException) -> Reason:
    match error:
        case errors.LeaseTimeout():
            return "timeout"
        case asyncio.CancelledError():
            return "cancelled"
        case _:
            return "error"
