"""One holding of a lease: how long it may be trusted, the loss of it, and giving it back."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from uuid import UUID

from interlock import errors, process
from interlock.body import Body
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
    """Held, and renewed, from the moment it is made until `release`, or until it is `lost`.

    ``async with grant`` cancels the body when the lease is lost, then raises `LeaseLost`; in the end it releases.
    """

    __slots__ = (
        "__weakref__",
        "_body",
        "_end",
        "_on_lost",
        "acquired_at",
        "broken_by",
        "confirmed",
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
        """The fencing token: grows with every grant of this name, for ever."""
        self.grant_id = grant_id
        self.timing = timing
        self.owner = owner
        self.confirmed = True
        """Whether the end of a block waits until the store has answered that the lease was given back."""
        self.acquired_at = boottime()
        self.trusted_until = 0.0
        """The moment on `boottime()` up to which it is certainly held; it moves with each renewal."""
        self.renew_at = 0.0
        self.is_handing_over = False
        """Whether the database was asked to give it to another, and may have done so: nobody trusts it meanwhile."""
        self.renewal_callbacks: list[Callable[[float], object]] | None = None
        """Who is told of renewals; most grants have none, and a round renews thousands of them."""
        self.engine = engine
        self.broken_by: BrokenBy | None = None
        """Who broke the lease, if an operator did, and the store has said so."""
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
        """How this database's guards are put into a transaction."""
        return self.engine.database.guarding

    @property
    def is_inherited(self) -> bool:
        """Whether it was made by the process that forked this one."""
        return process.pid != self.engine.pid

    @property
    def is_detached(self) -> bool:
        """Whether nobody here could do anything about it: it is the parent's, or was made before all was closed."""
        return self.engine.closed or self.is_inherited

    @property
    def ended(self) -> bool:
        return self._end is not None

    @property
    def is_released(self) -> bool:
        return self._end == "released"

    @property
    def lost(self) -> bool:
        """Asks the clock as well, so that the answer is right even after the process was stopped for a while.

        In a forked child it is lost: the lease is the parent's. So it is while it is being handed over, until it is
        known that nobody wanted it.
        """
        if self._end is not None:
            return self._end != "released"
        return self.is_handing_over or boottime() >= self.trusted_until or process.pid != self.engine.pid

    @property
    def is_held(self) -> bool:
        """Neither lost nor given back."""
        return self._end is None and not self.lost

    @property
    def remaining(self) -> float:
        """For how many seconds it may be trusted even if no renewal succeeds any more; 0 once it has ended."""
        if self._end is not None or self.is_handing_over or self.is_inherited:
            return 0.0
        return max(0.0, self.trusted_until - boottime())

    def check(self) -> None:
        """Raise `LeaseLost` if it is not held any more."""
        if self._end is not None or self.lost:
            raise self.error()

    async def guard(self, connection: Any = None) -> None:
        """Let the connection's open transaction commit only while this grant is current; see docs/how-to/guard.md."""
        await self.guards.guard(self, connection)

    def guard_item(self) -> dict[str, Any]:
        """For the TransactItems of your own TransactWriteItems: they are written only while this grant is current.

        See docs/how-to/dynamodb.md.
        """
        self.check()
        return self.engine.guard_item(self)

    async def wait_lost(self) -> str:
        """Until the lease is lost, which may be never; the answer says why."""
        told = asyncio.Event()
        reasons: list[str] = []

        def tell(why: str) -> None:
            reasons.append(why)
            told.set()

        self.on_lost(tell)
        try:
            await told.wait()
        finally:
            self._on_lost = [callback for callback in self._on_lost or () if callback is not tell] or None
        return reasons[0]

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Called with the reason, on the event loop's thread; at once, if it is lost already."""
        if self._end is not None and self._end != "released":
            callback(self._end)
        elif self.is_inherited:
            callback("inherited")
        else:
            self._on_lost = [*(self._on_lost or ()), callback]

    def on_renewed(self, callback: Callable[[float], object]) -> None:
        """Called with the new `trusted_until` after each renewal, on the event loop's thread."""
        self.renewal_callbacks = [*(self.renewal_callbacks or ()), callback]

    async def release(self) -> bool:
        """Give it back. False: it was not held any more. Twice is once.

        If the database cannot be told now, it is told later, or the lease expires.
        """
        return await self.engine.release(self)

    async def hand_over(self) -> bool:
        """Give it to whoever waits for it first. False, and it is kept, if nobody does."""
        return await self.engine.hand_over(self)

    async def __aenter__(self) -> Self:
        if self._end is not None or self.lost:  # on its way here
            await self.release()
            raise self.error()
        self._body = Body()
        self._on_lost = [*(self._on_lost or ()), self._body.cancel]  # as `on_lost`, whose questions are answered above
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        body, self._body = self._body, None
        others_cancelled = await body.end(error) if body else False
        released_before = self._end == "released"
        held = await self.release() if self.confirmed else self.engine.release_unconfirmed(self)
        if held or released_before:
            return None
        if others_cancelled:
            raise asyncio.CancelledError from self.error()
        raise self.error() from error

    def finish(self, how: str) -> bool:
        """The first end counts; False if there was one already."""
        if self._end is not None:
            return False
        self._end = how
        return True

    def correct(self, how: Loss | Literal["released"]) -> None:
        """It was given back, and turns out to have been lost before that; or not, after all."""
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
            except (Exception, asyncio.CancelledError):  # the latter comes out of a cancelled future
                log.exception("lease.callback_failed", extra={"lease": self.name, "token": self.token})

    def error(self) -> errors.LeaseLost:
        why = self._end or ("handed over" if self.is_handing_over else "expired")
        return self.error_of("inherited" if self.is_inherited else why)

    def error_of(self, why: str) -> errors.LeaseLost:
        by, reason = self.broken_by or (None, None)
        cause = _REASONS[why]
        if why == "broken" and by:
            cause = f"it was broken by {by}{': ' + reason if reason else ''}; stop what it protects"
        return errors.LeaseLost(
            f"The lease {self.name!r} (token {self.token}) is not held any more: {cause}.",
            name=self.name,
            token=self.token,
            broken_by=by,
            reason=reason,
        )


_REASONS = {
    "released": "it was released",
    "handed over": "another may have it, because it is being handed over",
    "expired": "no renewal was confirmed in time, so stop what it protects",
    "refused": "another may hold it, so stop what it protects",
    "broken": "an operator broke it, so stop what it protects",
    "clock": "the database's clock was set, so stop what it protects",
    "failover": "another server took over the database, so stop what it protects",
    "closed": "Interlock was closed under it",
    "inherited": "it is held by the process that forked this one",
}
