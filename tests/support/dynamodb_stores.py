"""DynamoDB stores without the engine that renews, with short methods for tests."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from interlock.clock import boottime
from interlock.stores.dynamodb.address import parsed
from interlock.stores.dynamodb.store import DynamoStore
from interlock.stores.leases import AcquireAnswer, AcquireRequest, Holder

_PATIENCE = 30.0


class Grant(NamedTuple):
    name: str
    token: int
    grant_id: UUID
    ttl: float


@dataclass
class Clock:
    """The clock of a process: it runs, and a test can move it. `wall` is the error of its wall clock."""

    added: float = 0.0
    wall: float = 0.0

    def __call__(self) -> float:
        return boottime() + self.added

    def pass_by(self, seconds: float) -> None:
        self.added += seconds


class Replica(DynamoStore):
    """A store that DynamoDB cannot distinguish from one in a process of its own."""

    def __init__(self, url: str, name: str, clock: Clock, **options: Any) -> None:
        self.clock = clock
        super().__init__(
            parsed(url),
            holder=Holder(name, "host", 1),
            clock=clock,
            wall_clock=lambda: time.time() + clock.added + clock.wall,
            **options,
        )

    async def ask(self, name: str = "feeds", ttl: float = 30.0, grant_id: UUID | None = None) -> AcquireAnswer:
        (answer,) = await self.acquire([AcquireRequest(name, grant_id or uuid4(), ttl, None, wait=False)])
        return answer

    async def take(self, name: str = "feeds", ttl: float = 30.0, metadata: str | None = None) -> Grant:
        ask = AcquireRequest(name, uuid4(), ttl, metadata, wait=False)
        (answer,) = await self.acquire([ask])
        assert answer.status == "granted"
        return Grant(name, answer.token, ask.grant_id, ttl)

    async def keeps(self, *grants: Grant) -> bool:
        """True if all of them were renewed."""
        answer = await self.renew(grants, _PATIENCE)
        assert not answer.locked
        return not answer.lost

    async def gives_back(self, grant: Grant) -> str:
        (answer,) = await self.release([grant])
        return answer.status

    async def item(self, name: str = "feeds") -> dict[str, Any]:
        """The lease's item as it is in the table."""
        await self.table()
        answer = await self.client.call(
            "get_item", boottime() + _PATIENCE, TableName=self.address.table, Key=self.key_of(name), ConsistentRead=True
        )
        found: dict[str, Any] = answer.get("Item", {})
        return found


@asynccontextmanager
async def replicas(
    url: str, *names: str, clocks: dict[str, Clock] | None = None, **options: Any
) -> AsyncIterator[tuple[Replica, ...]]:
    """`options` are the store's. Its timeout is longer than the default unless they have one."""
    options = {"timeout": _PATIENCE} | options
    made = tuple(Replica(url, name, (clocks or {}).get(name) or Clock(), **options) for name in names)
    try:
        yield made
    finally:
        for replica in made:
            await replica.close()
