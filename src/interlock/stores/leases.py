"""The interface of a lease store, whatever database is behind it.

A **grant** is the triple (name, token, grant_id). The requester draws a random `grant_id` before it sends the request,
so a request that is sent again finds its own grant. Every method takes a batch and answers in the order of the batch; a
request never waits for another request's name. The store's clock decides who holds a lease. The holder counts on its
own clock for how long it may trust the lease, from before the request was sent: the `remaining` of an answer is never
more than what remained then.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

AcquireStatus = Literal["granted", "busy", "locked", "changing", "held back"]
"""``busy``: held, or others are first. ``locked``: free, but a transaction still guards it. ``changing``: ask again at
once. ``held back``: the server was promoted a moment ago, and grants nothing yet."""

ReleaseStatus = Literal["released", "lost", "locked", "kept"]
"""``lost``: the grant holds nothing any more. ``locked``: ask again. ``kept``: it has no waiter."""


class Holder(NamedTuple):
    """The requester, as other processes see it."""

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
    """`remaining` belongs to a grant; `retry_after` and, if known, `holder` to any other answer.

    `clock` is the store's, in seconds, if the store hands leases over. `brief`: the grant was handed over, and has to
    be renewed soon.
    """

    status: AcquireStatus
    token: int
    remaining: float
    retry_after: float
    holder: str | None
    clock: float = 0.0
    brief: bool = False


class HandedGrant(NamedTuple):
    """A grant that the previous holder handed over to a waiter, which did not have to ask for it again.

    It lasts until `until`, by the store's clock: a second at most, in which the new holder renews it.
    """

    token: int
    until: float


class ReleaseAnswer(NamedTuple):
    """`offered` is the waiter that is next; `elsewhere`: it waits in another process. `handed`: it holds the lease."""

    status: ReleaseStatus
    offered: UUID | None
    elsewhere: bool
    handed: HandedGrant | None = None


class OnTurn(Protocol):
    """Called with the waiter that is next, and with the grant if the lease was handed over to it.

    Without a waiter (None): a waiter of this process did not come when it was notified, and the store has removed all
    waiters of this process from its queues.
    """

    def __call__(self, grant_id: UUID | None, handed: HandedGrant | None = None, /) -> None: ...


class BrokenBy(NamedTuple):
    """The operator that broke a lease, as recorded (with the role if the database has roles), and the reason given."""

    operator: str
    reason: str | None


class RenewAnswer(NamedTuple):
    """`lost`, `locked` and `broken` are positions in the batch; all other grants were renewed for their ttl.

    `broken` are the lost ones that an operator broke. `clock` is the store's, in seconds.
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
    """Every method raises `errors.StoreError`; then it is not known whether the statement took effect.

    If each request of a batch is sent on its own, `acquire` and `release` raise `PartlyFailed` if only some failed.
    """

    async def acquire(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]: ...

    async def release(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        """The release of a grant that was broken answers ``lost``, and frees the lease for the next waiter."""

    async def hand_over(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        """Release those leases that have waiters."""

    async def renew(self, grants: Sequence[GrantIdentity], timeout: float) -> RenewAnswer:
        """Renew on a connection that carries nothing else. An expired lease is lost, even if nothing has taken it."""

    async def abandon(self, requests: Sequence[AcquireRequest]) -> list[UUID]:
        """Leave the queue, and release what was handed over meanwhile.

        Returns the waiters of this process that are next.
        """

    async def offer(self, names: Sequence[str]) -> list[UUID]:
        """Notify the first waiter for each of these leases that is free. Returns those of this process."""

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        """Receive notifications for waiters, until `on_end` is called. False: this store has none, so poll instead."""

    async def unsubscribe(self) -> None:
        """The opposite of `subscribe`."""

    async def sweep(self, unused_for: float) -> int:
        """Delete leases that were not used for so many seconds.

        Returns the number of deleted leases, or -1 if another process is sweeping.
        """

    async def close_idle(self, idle_for: float) -> bool:
        """Close connections that were not used for so many seconds. Return True if none is open any more."""

    async def close(self) -> None: ...
