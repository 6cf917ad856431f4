"""The release of leases, with or without a wait for the store's answer.

A grant ends once, by `finish`. The first to end it (its holder, the renewals, or the closing of the root object)
decides how it ended, and only after that the store is notified. A release that cannot be delivered is retried in the
background.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.engine.deferred import DeferredRequests
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.observation.observer import Observer
from interlock.stores.leases import ReleaseAnswer

Response = asyncio.Future[tuple[ReleaseAnswer, float]]
"""The answer, and the moment on `boottime()` before its request was sent."""


class Releases:
    """All releases of one engine.

    An async caller calls `release`. A thread calls `begin`, and `finish` when the response has come. `drop` and
    `release_unconfirmed` do not wait for the store's answer.
    """

    def __init__(self, observer: Observer, held: HeldGrants, deferred: DeferredRequests) -> None:
        self._observer = observer
        self._held = held
        self._deferred = deferred
        self._unconfirmed: dict[str, Response] = {}

    async def release(self, grant: AsyncGrant) -> bool:
        """Release the lease and wait for the answer. Returns False if the lease was not held any more."""
        response = self.begin(grant)
        if response is None:
            return False
        try:
            with suppress(Exception):
                await response
        except asyncio.CancelledError:
            if response.done() and not response.cancelled():  # both came at once: the next waiter has to be notified
                self.finish(grant, response)
            raise
        return self.finish(grant, response)

    def begin(self, grant: AsyncGrant) -> Response | None:
        """End the grant and send the release; `finish` takes the response. Returns None if the lease was not held any
        more."""
        if not self._end(grant):
            return None
        response = None
        try:
            response = self._deferred.releases.submit(grant)  # first: another process may wait for the lease
        finally:
            self._report(grant, response)
        return response

    def finish(self, grant: AsyncGrant, response: Response) -> bool:
        """Finish a release whose response has come. Returns False if the lease was not held any more."""
        if isinstance(error := response.exception(), Exception):
            self._deferred.release_later(grant)
            if not isinstance(error, errors.InterlockError):
                raise error
            self._observer.database_error(error)
            return True
        answer, sent_at = response.result()
        self._deferred.after_release(grant, answer, sent_at)
        if answer.status == "lost":
            grant.correct("refused")
        return answer.status != "lost"

    def drop(self, grant: AsyncGrant) -> None:
        """Release a grant and do not wait for the answer. Does nothing if the grant has ended."""
        if not grant.is_inherited and grant.finish("released"):
            try:
                self._deferred.releases.post(grant)
            finally:
                self._report(grant)

    def release_unconfirmed(self, grant: AsyncGrant) -> bool:
        """Send the release and do not wait for its answer. Returns False if the lease is known to be lost.

        The store may handle a request to acquire on another connection than the release, so a later request for the
        same name is sent after the release's answer; requests for other names are not held up.
        """
        if not self._end(grant):
            return False
        try:
            response = self._unconfirmed[grant.name] = self._deferred.releases.submit(grant)
            response.add_done_callback(partial(self._confirmed, grant))
        finally:
            self._report(grant)
        return True

    def unconfirmed(self, name: str) -> Response | None:
        """Return the response of the last release of that name; None if no such release is awaited."""
        return self._unconfirmed.get(name)

    def _confirmed(self, grant: AsyncGrant, response: Response) -> None:
        if self._unconfirmed.get(grant.name) is response:
            del self._unconfirmed[grant.name]
        if response.cancelled() or self.finish(grant, response):
            return
        if response.result()[1] >= grant.trusted_until:  # it ended in time, and expired before the release was sent
            grant.correct("released")
            return
        # An operator broke it, for example, and the block ended before this process was notified.
        self._observer.lost_after_release(grant.name, grant.token, "refused")
        grant.notify_lost("refused")

    def _end(self, grant: AsyncGrant) -> bool:
        """End the grant. Returns False if the grant was lost or had ended before; this method then also handles a loss
        that was not noticed yet."""
        if not grant.lost and grant.finish("released"):
            return True
        if grant.is_inherited or grant.is_released:
            return False
        if grant.finish("expired"):  # its time ran out, and the timer has not noticed yet
            self._held.report_loss(grant, "expired")
        self._held.remove(grant)
        self._deferred.release_lost(grant)
        return False

    def _report(self, grant: AsyncGrant, response: "asyncio.Future[Any] | None" = None) -> None:
        self._held.remove(grant)
        try:
            self._observer.released(grant.name, grant.token, boottime() - grant.acquired_at)
        except BaseException:  # a user's hook ends the thread: no caller will wait for the response
            if response is not None:
                response.cancel()
            raise
