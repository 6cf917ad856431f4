"""Requests for leases. Each request has a grant_id of its own, is sent until it is answered, and is granted at most
once.

If the caller stops waiting, the answer to its request is unclaimed, and a grant in that answer is released. If all
answers to a request are lost, the request is sent again in the background for as long as the lease could be held, and
the grant that it may bring is released.
"""

import asyncio
import os
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.engine.batch import Batcher
from interlock.coordination.engine.connections import StoreConnections, closed_error
from interlock.coordination.engine.deferred import DeferredRequests
from interlock.coordination.engine.queue import QueueEntry
from interlock.coordination.engine.release import Releases
from interlock.coordination.engine.retry import UNKNOWN, RetryPolicy, is_unknown
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import LeaseTiming
from interlock.stores.leases import AcquireAnswer, AcquireRequest, LeaseStore

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine

G = TypeVar("G", bound=AsyncGrant)

Response = asyncio.Future[tuple[AcquireAnswer, float]]
"""The answer, and the moment on `boottime()` before its request was sent."""


class LeaseRequest(AcquireRequest, Generic[G]):
    """A request for a lease, and the state of its caller. `kind` is the class of the grant.

    With a `timeout` of 0 the request does not wait; None waits without limit. With `only_try`, a taken lease is a
    result and not an error. `response` is the future of a request that was sent, as long as its caller does not wait
    for it; `entry` is the place in the wait queue. `attempts` counts the requests sent, and `last_error` is the error
    of the last one. `in_doubt` is True once an answer was lost: the store may have granted the lease.
    """

    __slots__ = (
        "attempts",
        "engine",
        "entry",
        "in_doubt",
        "kind",
        "last_error",
        "only_try",
        "owner",
        "response",
        "started",
        "timeout",
        "timing",
    )

    def __init__(
        self,
        engine: "Engine",
        name: str,
        timing: LeaseTiming,
        metadata: str | None,
        owner: object,
        timeout: float | None,
        kind: type[G],
        *,
        only_try: bool = False,
    ) -> None:
        super().__init__(name, UUID(bytes=os.urandom(16)), timing.ttl, metadata, wait=False)
        self.engine = engine
        self.timing = timing
        self.owner = owner
        self.timeout = timeout
        self.kind = kind
        self.only_try = only_try
        self.started = boottime()
        self.response: Response | None = None
        self.entry: QueueEntry | None = None
        self.attempts = 0
        self.last_error: Exception | None = None
        self.in_doubt = False


class LeaseRequests:
    """All requests of one engine."""

    def __init__(
        self,
        store: LeaseStore,
        releases: Releases,
        deferred: DeferredRequests,
        retry: RetryPolicy,
        connections: StoreConnections,
    ) -> None:
        self._releases = releases
        self._deferred = deferred
        self._retry = retry
        self._connections = connections
        self._batcher: Batcher[LeaseRequest[Any], AcquireAnswer] = Batcher(
            store.acquire, deferred.release_unclaimed, deferred.request_failed
        )

    def submit(self, request: LeaseRequest[Any]) -> Response:
        """Send the request. If a release of the same name is unconfirmed, the request is sent after the answer to that
        release."""
        self._connections.use()
        request.attempts += 1
        release = self._releases.unconfirmed(request.name)
        if release is None:
            return self._batcher.submit(request)
        response: Response = asyncio.get_running_loop().create_future()
        release.add_done_callback(lambda _: self._submit_for(request, response))
        return response

    def _submit_for(self, request: LeaseRequest[Any], response: Response) -> None:
        if self._connections.closed and not response.done():
            response.set_exception(closed_error())
        elif not response.done():
            self._batcher.submit_for(request, response)

    def answered(self, request: LeaseRequest[Any]) -> tuple[AcquireAnswer, float] | None:
        """Return the answer if the response has come. Returns None if it has not come, is an error, or the root object
        was closed."""
        response = request.response
        if response is None or response.cancelled() or response.exception() or self._connections.closed:
            return None
        self._retry.was_reached = True
        return response.result()

    async def answer(self, request: LeaseRequest[Any], retries: int | None = None) -> tuple[AcquireAnswer, float]:
        """Wait for the answer. After an error, send the same request again, at most `retries` times."""
        failures = 0
        while True:
            self._connections.require_open()
            response = request.response or self.submit(request)
            request.response = None
            try:
                answer, sent_at = await response
            except asyncio.CancelledError:
                if response.done() and not response.cancelled() and not response.exception():  # both came at once
                    self._deferred.release_unclaimed(request, *response.result())
                raise
            except errors.StoreError as error:
                request.last_error = error
                request.in_doubt = request.in_doubt or isinstance(error, UNKNOWN)
                await self._retry.wait_or_raise(error, failures, retries)
                failures += 1
            except Exception as error:
                request.in_doubt = request.in_doubt or is_unknown(error)
                raise
            else:
                self._retry.was_reached = True
                request.last_error = None
                if self._connections.closed:
                    self._deferred.release_unclaimed(request, answer, sent_at)
                    raise closed_error()
                return answer, sent_at

    def discard_response(self, request: LeaseRequest[Any]) -> None:
        """Discard the response of a caller that stops before it waits for the response. A grant in the response is
        released."""
        response, request.response = request.response, None
        if response is not None and not response.cancel() and not response.cancelled() and not response.exception():
            self._deferred.release_unclaimed(request, *response.result())

    def fail_all(self, error: Exception) -> None:
        self._batcher.fail_all(error)

    async def drain(self) -> None:
        await self._batcher.drain()
