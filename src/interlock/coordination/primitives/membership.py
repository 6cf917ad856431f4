"""Membership: the live members of a group, with their metadata. A member is a lease under the group's name.

A member that loses its lease joins again by itself. So a member that was cut off from the database is missing from the
list for a time, and its work is not interrupted. Only the id of a member is exclusive.
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
    """A live member of a group. `holder`, `host` and `pid` describe its process. `remaining` is the number of seconds
    until the member is removed from the list unless it renews."""

    id: str
    holder: str | None
    host: str | None
    pid: int | None
    metadata: Any
    joined_at: datetime
    remaining: float


class AsyncMembership:
    """``async with locks.join("workers") as member: …`` makes this process a member of the group as long as the block
    runs."""

    def __init__(
        self,
        engine: "Callable[[], Engine]",
        group: str,
        id: str | None,  # noqa: A002 # the word of the API
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
        self._rejoining: asyncio.Task[None] | None = None
        self._background_leave: asyncio.Task[None] | None = None

    @property
    def is_member(self) -> bool:
        """True while this process trusts its membership. Sends no request. False for a while after a lost
        connection."""
        grant = self._grant
        return grant is not None and not grant.ended and not grant.lost

    async def __aenter__(self) -> Self:
        """Join the group. If another member has the same id (usually this replica before it was killed), wait until
        that member is gone."""
        self._grant = await self._join()
        self._rejoining = asyncio.create_task(self._rejoin(self._grant))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        rejoining, self._rejoining = self._rejoining, None
        try:
            if rejoining is not None:
                rejoining.cancel()
                await asyncio.wait([rejoining])
        finally:
            if self._grant is not None:
                await self._grant.release()

    def leave_soon(self) -> None:
        """Leave the group in the background. This method has to be called on the event loop's thread."""
        self._background_leave = asyncio.create_task(self.__aexit__())

    async def _rejoin(self, grant: AsyncGrant) -> None:
        try:
            while True:
                await grant.wait_lost()
                grant = self._grant = await self._join()
        except InterlockError as error:  # an unreachable database is waited for, so this is another error
            log.error("membership.ended", extra={"group": self.group, "member": self.id, "why": str(error)})

    async def _join(self) -> AsyncGrant:
        return await self._settings.acquire(self._engine(), self, None, AsyncGrant)


async def members(engine: "Engine", group: str) -> list[Member]:
    """Returns the live members as the store records them, ordered by id."""
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
