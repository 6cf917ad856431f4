"""A grant of a lease: how long it may be trusted, its loss, and its release."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from uuid import UUID

from interlock import errors, process
from interlock.block_body import Body
from interlock.clock import boottime
from interlock.coordination.lease.reasons import Loss
from interlock.coordination.lease.times import LeaseTiming
from interlock.logs import events

if TYPE_CHECKING:
    from interlock.coordination.backends.choice import Guarding
    from interlock.coordination.engine.engine import Engine
    from interlock.stores.leases import BrokenBy

log = events(__name__)

T = TypeVar("T")


class AsyncGrant:
    """One holding of a lease. It is renewed from the moment it is made until its `release`, or until it is `lost`.

    ``async with grant`` cancels the body when the lease is lost, and then raises `LeaseLost`. At the end of the block
    it releases the lease.
    """

    __slots__ = (
        "__weakref__",
        "_body",
        "_end",
        "_on_lost",
        "acquired_at",
        "broken_by",
        "confirm_release",
        "engine",
        "grant_id",
        "is_handing_over",
        "name",
        "owner",
        "renew_at",
        "renewal_callbacks",
        "timing",
        "token",
        "trusted_until",
    )

    def __init__(
        self, engine: "Engine", name: str, token: int, grant_id: UUID, timing: LeaseTiming, owner: object
    ) -> None:
        self.name = name
        self.token = token
        """The fencing token: it grows with every grant of this name, and never gets smaller."""
        self.grant_id = grant_id
        self.timing = timing
        self.owner = owner
        self.confirm_release = True
        """If True, the end of a block waits until the store has confirmed the release."""
        self.acquired_at = boottime()
        self.trusted_until = 0.0
        """The moment on `boottime()` until which the lease is certainly held; each renewal moves it forward."""
        self.renew_at = 0.0
        self.is_handing_over = False
        """True while a hand-over is under way: another process may hold the lease, so the grant is not trusted."""
        self.renewal_callbacks: list[Callable[[float], object]] | None = None
        """Callbacks that run after renewals. None for most grants, because one round renews thousands of grants."""
        self.engine = engine
        self.broken_by: BrokenBy | None = None
        """The operator that broke the lease, once the store has reported it."""
        self._end: str | None = None
        self._on_lost: list[Callable[[str], object]] | None = None
        self._body: Body | None = None

    def __repr__(self) -> str:
        return f"<grant of {self.name!r}, token {self.token}, {self._end or 'held'}>"

    @property
    def ttl(self) -> float:
        return self.timing.ttl

    @property
    def schema(self) -> str:
        return self.engine.database.schema

    @property
    def guards(self) -> "Guarding":
        """The database's `Guarding`, which puts a guard into a transaction."""
        return self.engine.database.guarding

    @property
    def is_inherited(self) -> bool:
        """True if the process that forked this one made the grant."""
        return process.pid != self.engine.pid

    @property
    def is_detached(self) -> bool:
        """True if this process cannot use the grant: it belongs to the parent process, or its engine was closed."""
        return self.engine.closed or self.is_inherited

    @property
    def ended(self) -> bool:
        return self._end is not None

    @property
    def is_released(self) -> bool:
        return self._end == "released"

    @property
    def lost(self) -> bool:
        """True if the grant must not be trusted any more. The property also reads the clock, so it is right even after
        this process was stopped for a time.

        Also True in a forked child, because the lease belongs to the parent. Also True during a hand-over, until the
        store has answered that no process waits for the lease.
        """
        if self._end is not None:
            return self._end != "released"
        return self.is_handing_over or boottime() >= self.trusted_until or process.pid != self.engine.pid

    @property
    def is_held(self) -> bool:
        """True if the grant is neither lost nor released."""
        return self._end is None and not self.lost

    @property
    def remaining(self) -> float:
        """The seconds for which the grant may be trusted even if no further renewal succeeds; 0 once the grant has
        ended."""
        if self._end is not None or self.is_handing_over or self.is_inherited:
            return 0.0
        return max(0.0, self.trusted_until - boottime())

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is not held any more."""
        if self._end is not None or self.lost:
            raise self.error()

    async def guard(self, connection: Any = None) -> None:
        """Let the connection's open transaction commit only while this grant is current; see docs/how-to/guard.md."""
        await self.guards.guard(self, connection)

    def guard_item(self) -> dict[str, Any]:
        """Return an item for the TransactItems of your own TransactWriteItems. DynamoDB writes that transaction only
        while this grant is current.

        See docs/how-to/dynamodb.md.
        """
        self.check()
        return self.engine.guard_item(self)

    async def wait_lost(self) -> str:
        """Wait until the lease is lost, and return the reason. If the lease is never lost, the wait never ends."""
        lost = asyncio.Event()
        reasons: list[str] = []

        def note(why: str) -> None:
            reasons.append(why)
            lost.set()

        self.on_lost(note)
        try:
            await lost.wait()
        finally:
            self._on_lost = [callback for callback in self._on_lost or () if callback is not note] or None
        return reasons[0]

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Call the callback with the reason when the lease is lost, on the event loop's thread. If the lease is lost
        already, call it at once."""
        if self._end is not None and self._end != "released":
            callback(self._end)
        elif self.is_inherited:
            callback("inherited")
        else:
            self._on_lost = [*(self._on_lost or ()), callback]

    def on_renewed(self, callback: Callable[[float], object]) -> None:
        """Call the callback with the new `trusted_until` after each renewal, on the event loop's thread."""
        self.renewal_callbacks = [*(self.renewal_callbacks or ()), callback]

    async def release(self) -> bool:
        """Release the lease. Returns False if the lease was not held any more. A second call does nothing.

        If the database cannot be reached now, the release is retried until it succeeds or the lease expires.
        """
        return await self.engine.release(self)

    async def hand_over(self) -> bool:
        """Give the lease to the first waiter. Returns False if there is no waiter: then this grant keeps the lease."""
        return await self.engine.hand_over(self)

    async def __aenter__(self) -> Self:
        if self._end is not None or self.lost:  # between the grant and this block
            await self.release()
            raise self.error()
        self._body = Body()
        self._on_lost = [*(self._on_lost or ()), self._body.cancel]  # as `on_lost` does after its checks
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        body, self._body = self._body, None
        others_cancelled = await body.end(error) if body else False
        released_before = self._end == "released"
        held = await self.release() if self.confirm_release else self.engine.release_unconfirmed(self)
        if held or released_before:
            return None
        if others_cancelled:
            raise asyncio.CancelledError from self.error()
        raise self.error() from error

    def finish(self, how: str) -> bool:
        """End the grant. Returns False if the grant had ended before: only the first end counts."""
        if self._end is not None:
            return False
        self._end = how
        return True

    def correct(self, how: Loss | Literal["released"]) -> None:
        """Correct the recorded end of a grant: a grant that counted as released had been lost before, or the other way
        round."""
        self._end = how

    def notify_renewed(self) -> None:
        self._call(self.renewal_callbacks or (), self.trusted_until)

    def notify_lost(self, why: Loss) -> None:
        callbacks, self._on_lost = self._on_lost, None
        self._call(callbacks or (), why)

    def _call(self, callbacks: Iterable[Callable[[T], object]], fact: T) -> None:
        for callback in callbacks:
            try:
                callback(fact)
            except (Exception, asyncio.CancelledError):  # a callback may raise the latter from a cancelled future
                log.exception("lease.callback_failed", extra={"lease": self.name, "token": self.token})

    def error(self) -> errors.LeaseLost:
        why = self._end or ("handed over" if self.is_handing_over else "expired")
        return self.error_of("inherited" if self.is_inherited else why)

    def error_of(self, why: str) -> errors.LeaseLost:
        by, reason = self.broken_by or (None, None)
        cause = _REASONS[why]
        if why == "broken" and by:
            cause = f"it was broken by {by}{': ' + reason if reason else ''}: stop the work that it protects"
        return errors.LeaseLost(
            f"The lease {self.name!r} (token {self.token}) is not held any more: {cause}.",
            name=self.name,
            token=self.token,
            broken_by=by,
            reason=reason,
        )


_REASONS = {
    "released": "it was released, so acquire it again",
    "handed over": "it is being handed over, and another process may hold it, so stop the work that it protects",
    "expired": "no renewal was confirmed in time, so stop the work that it protects",
    "refused": "another process may hold it, so stop the work that it protects",
    "broken": "an operator broke it, so stop the work that it protects",
    "clock": "the database's clock was set, so stop the work that it protects",
    "failover": "another server took over the database, so stop the work that it protects",
    "closed": "Interlock was closed while the lease was held, so stop the work that it protects",
    "inherited": "the process that forked this one holds it, so acquire the lease in this process",
}
