"""The interface of a lease store, whatever database is behind it.

A **grant** is the triple (name, token, grant_id). The requester draws a random `grant_id` before it sends the request,
so a request that is sent again finds its own grant. Every method takes a batch and answers in the order of the batch; a
request never waits for another request's name. The store's clock decides who holds a lease. The holder measures
on its own clock how long it may trust the lease, counted from before it sent the request: the `remaining` of an answer
is never more than the time that remained at that moment.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

AcquireStatus = Literal["granted", "busy", "locked", "changing", "held back"]
"""``busy``: the lease is held, or other waiters are first. ``locked``: the lease is free, but a transaction still
guards it. ``changing``: the caller has to ask again at once. ``held back``: the server was promoted a moment ago, and
grants nothing yet."""

ReleaseStatus = Literal["released", "lost", "locked", "kept"]
"""``lost``: the grant no longer holds the lease. ``locked``: a transaction still locks the lease, so ask again.
``kept``: the lease was not released, because it has no waiter."""


class Holder(NamedTuple):
    """The process that requests a lease, as other processes see it."""

    replica: str
    host: str
    pid: int


class AcquireRequest:
    """A request for a lease. With `wait`, it is queued if it cannot be granted."""

    __slots__ = ("grant_id", "metadata", "name", "ttl", "wait")

    def __init__(self, name: str, grant_id: UUID, ttl: float, metadata: str | None, wait: bool) -> None:
        self.name = name
        self.grant_id = grant_id
        self.ttl = ttl
        self.metadata = metadata
        self.wait = wait


class AcquireAnswer(NamedTuple):
    """`remaining` is set for a grant; `retry_after` and, if known, `holder` are set for any other answer.

    `clock` is the store's time in seconds, set if the store hands leases over. `brief` is True for a grant that was
    handed over and has to be renewed soon.
    """

    status: AcquireStatus
    token: int
    remaining: float
    retry_after: float
    holder: str | None
    clock: float = 0.0
    brief: bool = False


class HandedGrant(NamedTuple):
    """A grant that the previous holder handed over to a waiter, without another request of the waiter.

    The grant lasts until `until` by the store's clock, for a second at most: the new holder has to renew it by then.
    """

    token: int
    until: float


class ReleaseAnswer(NamedTuple):
    """`offered` is the next waiter; `elsewhere` is True if that waiter is in another process.

    `handed` is the grant of that waiter, if the lease was handed over to it.
    """

    status: ReleaseStatus
    offered: UUID | None
    elsewhere: bool
    handed: HandedGrant | None = None


class OnTurn(Protocol):
    """Called with the next waiter, and with the waiter's grant if the lease was handed over to it.

    None in place of a waiter means: a waiter of this process was notified and did not come, so the store has removed
    all waiters of this process from its queues.
    """

    def __call__(self, grant_id: UUID | None, handed: HandedGrant | None = None, /) -> None: ...


class BrokenBy(NamedTuple):
    """The operator that broke a lease, as recorded (with the role if the database has roles), and the reason given."""

    operator: str
    reason: str | None


class RenewAnswer(NamedTuple):
    """`lost`, `locked` and `broken` are positions in the batch; all other grants were renewed for their ttl.

    `broken` has the lost grants that an operator broke. `clock` is the store's time in seconds.
    """

    lost: Sequence[int]
    locked: Sequence[int]
    clock: float
    timeline: int
    broken: Mapping[int, BrokenBy] = {}


class GrantIdentity(Protocol):
    """The part of a grant that a store has to know."""

    @property
    def name(self) -> str: ...
    @property
    def token(self) -> int: ...
    @property
    def grant_id(self) -> UUID: ...
    @property
    def ttl(self) -> float: ...


class PartlyFailed(Exception):
    """`outcomes` has an answer for each request of a batch, or the error of that request."""

    def __init__(self, outcomes: Sequence[object]) -> None:
        super().__init__()
        self.outcomes = outcomes


class LeaseStore(Protocol):
    """Every method may raise `errors.StoreError`; the statement may have taken effect all the same.

    In a store that sends each request of a batch on its own, `acquire` and `release` raise `PartlyFailed` if only some
    of the requests failed.
    """

    async def acquire(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]: ...

    async def release(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        """Release the leases. A grant that was broken gets the answer ``lost``, and its lease is free for a waiter."""

    async def hand_over(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        """Release only the leases that have waiters."""

    async def renew(self, grants: Sequence[GrantIdentity], timeout: float) -> RenewAnswer:
        """Renew on a connection that carries nothing but renewals.

        A grant that has expired is lost, even if no other process has taken the lease.
        """

    async def abandon(self, requests: Sequence[AcquireRequest]) -> list[UUID]:
        """Remove the requests from their queues, and release leases that were handed over to them meanwhile.

        Returns the waiters of this process that are next.
        """

    async def offer(self, names: Sequence[str]) -> list[UUID]:
        """Notify the first waiter of each free lease in `names`. Returns the notified waiters of this process."""

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        """Receive notifications for waiters, until `on_end` is called. Returns False if the waiters have to poll."""

    async def unsubscribe(self) -> None:
        """End the notifications that `subscribe` began."""

    async def sweep(self, unused_for: float) -> int:
        """Delete leases that were not used for `unused_for` seconds.

        Returns the number of deleted leases, or -1 if another process is sweeping.
        """

    async def close_idle(self, idle_for: float) -> bool:
        """Close connections that were not used for `idle_for` seconds. Returns True if no connection is open now."""

    async def close(self) -> None: ...
