"""An acquire that is under way: what is asked of the store, and what whoever asks has to remember of it."""

import asyncio
import os
from typing import Generic, TypeVar
from uuid import UUID

from interlock.clock import boottime
from interlock.coordination.engine.queue import QueueEntry
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import LeaseTiming
from interlock.stores.leases import AcquireAnswer, AcquireRequest

G = TypeVar("G", bound=AsyncGrant)

Response = asyncio.Future[tuple[AcquireAnswer, float]]


class Acquisition(AcquireRequest, Generic[G]):
    """With a grant_id of its own. `timeout`: 0 does not wait, None waits for ever. `kind` is what the grant will be.

    `asked` is the question that is on its way, if nobody waits for its answer yet; `turn` is the place in the waiting
    room. `attempts` is how often was asked, `trouble` what was wrong with the last time. It is `in_doubt` once an
    answer was lost: the store may have granted it.
    """

    __slots__ = (
        "attempts",
        "entry",
        "in_doubt",
        "kind",
        "last_error",
        "owner",
        "response",
        "started",
        "timeout",
        "timing",
    )

    def __init__(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, timeout: float | None, kind: type[G]
    ) -> None:
        super().__init__(name, UUID(bytes=os.urandom(16)), timing.ttl, metadata, wait=False)
        self.timing = timing
        self.owner = owner
        self.timeout = timeout
        self.kind = kind
        self.started = boottime()
        self.response: Response | None = None
        self.entry: QueueEntry | None = None
        self.attempts = 0
        self.last_error: Exception | None = None
        self.in_doubt = False
