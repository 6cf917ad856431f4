"""What a store of leases does, whatever database it is.

A **grant** is the triple (name, token, grant_id). `grant_id` is random and chosen by whoever asks, before it asks, so a
request that is sent again finds its own grant. Every method takes a batch and answers in its order; one request never
waits for another's name. The store's clock decides who holds a lease. How long the holder may trust it is counted on
the holder's clock, from before the request was sent: `remaining` of an answer is never more than what was left then.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

AcquireStatus = Literal["granted", "busy", "locked", "changing", "held back"]
"""``busy``: held, or others are first. ``locked``: free, and a transaction still guards it. ``changing``: ask again at
once. ``held back``: the server was promoted a moment ago, and grants nothing yet."""

ReleaseStatus = Literal["released", "lost", "locked", "kept"]
"""``lost``: that grant holds nothing any more. ``locked``: ask again. ``kept``: nobody waits for it."""


class Holder(NamedTuple):
    """Who asks, as others will see it."""

    replica: str
    host: str
    pid: int


class AcquireRequest:
    """A wish for a lease. With `wait`, who does not get it is put into the queue."""

    __slots__ = ("grant_id", "metadata", "name", "ttl", "wait")

    def __init__(self, name: str, grant_id: UUID, ttl: float, metadata: str | None, wait: bool) -> None:
        self.name = name
        self.grant_id = grant_id
        self.ttl = ttl
        self.metadata = metadata
        self.wait = wait


class AcquireAnswer(NamedTuple):
    """`remaining` of a grant; `retry_after` and, if it is known, `holder` of anything else. `clock` is the store's, in
    seconds, where it may hand a lease on. `brief`: the grant was handed on, and has to be renewed soon."""

    status: AcquireStatus
    token: int
    remaining: float
    retry_after: float
    holder: str | None
    clock: float = 0.0
    brief: bool = False


class HandedGrant(NamedTuple):
    """A grant that a waiter did not ask for again: who held the lease before has handed it on. It lasts until `until`,
    by the store's clock: a second at most, in which whoever has it renews it."""

    token: int
    until: float


class ReleaseAnswer(NamedTuple):
    """`offered` is whose turn it is now; `elsewhere` says that it waits in another process. `handed`: it has it."""

    status: ReleaseStatus
    offered: UUID | None
    elsewhere: bool
    handed: HandedGrant | None = None


class OnTurn(Protocol):
    """Told whose turn it is, and what it was handed, if it was. None instead of a waiter: one of ours did not come when
    it was called, and all of us were given up."""

    def __call__(self, grant_id: UUID | None, handed: HandedGrant | None = None, /) -> None: ...


class BrokenBy(NamedTuple):
    """Who broke a lease, as it was recorded (with the role, where the database has roles), and the reason given."""

    operator: str
    reason: str | None


class RenewAnswer(NamedTuple):
    """Places in the batch; a grant that is neither lost nor locked was renewed for its ttl. Of those that were lost,
    `broken` were broken by an operator. `clock` is the store's, in seconds."""

    lost: Sequence[int]
    locked: Sequence[int]
    clock: float
    timeline: int
    broken: Mapping[int, BrokenBy] = {}


class GrantIdentity(Protocol):
    """A grant, as far as a store has to know it."""

    @property
    def name(self) -> str: ...
    @property
    def token(self) -> int: ...
    @property
    def grant_id(self) -> UUID: ...
    @property
    def ttl(self) -> float: ...


class PartlyFailed(Exception):
    """Of a batch: `outcomes` are its answers and, in the place of those that there are none of, their errors."""

    def __init__(self, outcomes: Sequence[object]) -> None:
        super().__init__()
        self.outcomes = outcomes


class LeaseStore(Protocol):
    """Every method raises `errors.StoreError`; then it is not known whether the statement took effect.

    Where the requests of a batch are on their own, `acquire` and `release` raise `PartlyFailed` if only some failed.
    """

    async def acquire(self, asks: Sequence[AcquireRequest]) -> list[AcquireAnswer]: ...

    async def release(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        """The release of a grant that was broken answers ``lost``, and frees the lease for the next waiter."""

    async def hand_over(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        """Release those that somebody waits for."""

    async def renew(self, grants: Sequence[GrantIdentity], timeout: float) -> RenewAnswer:
        """On a connection that carries nothing else. A lease that has expired is lost, taken by another or not."""

    async def abandon(self, asks: Sequence[AcquireRequest]) -> list[UUID]:
        """Leave the queue, and give back what was handed on meanwhile; answers with those of ours whose turn it is."""

    async def offer(self, names: Sequence[str]) -> list[UUID]:
        """Tell the first of each queue whose lease is free; the answer is those of ours."""

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        """Hear when it is a waiter's turn, until `on_end`. False: this store cannot tell, ask now and then instead."""

    async def unsubscribe(self) -> None:
        """The opposite of `subscribe`."""

    async def sweep(self, unused_for: float) -> int:
        """Delete leases that nobody has used for so long: how many, or -1 if another is at it."""

    async def close_idle(self, idle_for: float) -> bool:
        """Close connections that were not used for so long. Whether none is left."""

    async def close(self) -> None: ...
