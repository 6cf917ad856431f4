"""Membership: who is alive, with what each says of itself. A member is a lease under the group's name.

Whoever loses its lease joins again by itself: a member that was cut off is missing from the list for that long, and
what it does is not interrupted. Nothing here is exclusive but the member's id.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import LeaseSettings
from interlock.coordination.lease.name import checked_name, own_name, part, parts, whole_name
from interlock.coordination.lease.times import Duration
from interlock.coordination.primitives.schedule import as_date
from interlock.errors import InterlockError
from interlock.logs import events

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine

log = events(__name__)

_KIND = "member"


@dataclass(frozen=True)
class Member:
    """One that is alive; `holder`, `host` and `pid` are the process it belongs to. `remaining`: seconds that are left
    to it if it is not heard of again."""

    id: str
    holder: str | None
    host: str | None
    pid: int | None
    metadata: Any
    joined_at: datetime
    remaining: float


class AsyncMembership:
    """``async with locks.join("workers") as member: …`` is a member as long as the block runs."""

    def __init__(
        self,
        engine: "Callable[[], Engine]",
        group: str,
        id: str | None,  # noqa: A002 # what it is called everywhere
        ttl: Duration,
        request_timeout: float | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        self.group = whole_name(group)
        self.id = secrets.token_hex(4) if id is None else own_name(id)
        self._engine = engine
        name = checked_name(part(group, _KIND, self.id))
        self._settings = LeaseSettings(name, ttl, None, request_timeout, metadata, own=True)
        self._grant: AsyncGrant | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    @property
    def is_member(self) -> bool:
        """Asks nobody. False for a while after we were cut off."""
        grant = self._grant
        return grant is not None and not grant.ended and not grant.lost

    async def __aenter__(self) -> Self:
        """Another member with our id is waited for: mostly that is ourselves, before we were killed."""
        self._grant = await self._join()
        self._keeping = asyncio.create_task(self._keep(self._grant))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        keeping, self._keeping = self._keeping, None
        try:
            if keeping is not None:
                keeping.cancel()
                await asyncio.wait([keeping])
        finally:
            if self._grant is not None:
                await self._grant.release()

    def leave_soon(self) -> None:
        """On the event loop, for somebody who does not wait for it."""
        self._leaving = asyncio.create_task(self.__aexit__())

    async def _keep(self, grant: AsyncGrant) -> None:
        try:
            while True:
                await grant.wait_lost()
                grant = self._grant = await self._join()
        except InterlockError as error:  # a database that is away is waited for, so it is something else
            log.error("membership.ended", extra={"group": self.group, "member": self.id, "why": str(error)})

    async def _join(self) -> AsyncGrant:
        return await self._settings.acquire(self._engine(), self, None, AsyncGrant)


async def members(engine: "Engine", group: str) -> list[Member]:
    """Those that are alive now, as the store sees it, by id."""
    prefix = parts(whole_name(group), _KIND)
    return [
        Member(
            lease.name.removeprefix(prefix),
            lease.holder,
            lease.host,
            lease.pid,
            None if lease.metadata is None else json.loads(lease.metadata),
            as_date(lease.acquired_at),
            lease.remaining,
        )
        for lease in await engine.records.held(prefix)
    ]
