"""tooz's groups: a record with the list of groups, and a lease for each member.

A process that creates or deletes a group holds the lease of the list, and writes the record only under this lease. A
member that joins acquires its lease first and checks for the group after that. A process that deletes a group removes
the group from the list first and checks for members after that. So if a join and a deletion happen at once, at least
one of them sees the other: the member releases its lease again, or the deletion puts the group back.

After a crash of a member its lease remains until its ttl is over. After a crash in a deletion during which a member
joined, the group may be gone although it has a member. That member notices this when it reads the members.

A member's capabilities are the metadata of its lease. The metadata of a lease cannot change, so newer capabilities are
the metadata of a second lease with a number of its own. The member stays in the group all the time.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tooz.coordination import (
    Capabilities,
    GroupAlreadyExist,
    GroupNotCreated,
    GroupNotEmpty,
    MemberAlreadyExist,
    MemberNotJoined,
)

from interlock.coordination.engine.engine import Engine
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import LeaseSettings
from interlock.coordination.primitives.schedule import as_date
from interlock.integrations.tooz import lease_names

_LIST_TTL = 3.0
"""Seconds that other processes wait after a process dies while it changes the list of groups."""


@dataclass(frozen=True)
class Info:
    """A member of a group, as recorded in the store."""

    capabilities: Capabilities | None
    joined_at: datetime
    updated_at: datetime


class Joined:
    """A membership of this process: its lease, and the lease with its newest capabilities, if any."""

    def __init__(self, grant: AsyncGrant) -> None:
        self.grant = grant
        self.updates = 0
        self.update: AsyncGrant | None = None

    def grants(self) -> Iterator[AsyncGrant]:
        yield self.grant
        if self.update is not None:
            yield self.update


class Groups:
    """The groups and this member's memberships. All methods run on one event loop."""

    def __init__(self, engine: Engine, member_id: bytes, ttl: float) -> None:
        self._engine = engine
        self._member_id = member_id
        self._ttl = ttl
        self._joined: dict[bytes, Joined] = {}

    async def names(self) -> list[bytes]:
        record = await self._engine.records.read(lease_names.GROUPS)
        return [] if record is None else [lease_names.unquoted(name) for name in json.loads(record.value)]

    async def create(self, group: bytes) -> None:
        async with await self._changing() as grant:
            names = await self.names()
            if group in names:
                raise GroupAlreadyExist(group)
            await self._write([*names, group], grant)

    async def delete(self, group: bytes) -> None:
        async with await self._changing() as grant:
            names = await self.names()
            if group not in names:
                raise GroupNotCreated(group)
            if await self._infos(group):
                raise GroupNotEmpty(group)
            await self._write([name for name in names if name != group], grant)
            if await self._infos(group):
                await self._write(names, grant)
                raise GroupNotEmpty(group)

    async def join(self, group: bytes, capabilities: Capabilities | None) -> None:
        """Raises MemberAlreadyExist if a living member has this id. If that member has died, the call waits until the
        member's lease expires."""
        settings = self._settings(lease_names.member(group, self._member_id), capabilities)
        grant = await settings.try_acquire(self._engine, object(), AsyncGrant)
        if grant is None:
            if self._member_id in await self.members(group):
                raise MemberAlreadyExist(group, self._member_id)
            grant = await settings.acquire(self._engine, object(), self._ttl, AsyncGrant)
        try:
            await self._require(group)
        except BaseException:
            self._engine.drop(grant)
            raise
        self._forget(group)
        self._joined[group] = Joined(grant)

    async def leave(self, group: bytes) -> bool:
        """Leave the group. Returns False if the member of this id belongs to another coordinator."""
        joined = self._joined.get(group)
        left = joined is not None and await joined.grant.release()
        self._forget(group)
        if not left:
            await self._require_member(group, self._member_id)
        return left

    async def update(self, group: bytes, capabilities: Capabilities) -> None:
        joined = self._joined.get(group)
        if joined is None or joined.grant.lost:
            await self._require(group)
            raise MemberNotJoined(group, self._member_id)
        joined.updates += 1
        name = lease_names.update(group, self._member_id, joined.grant.token, joined.updates)
        settings = self._settings(name, capabilities)
        newer = await settings.acquire(self._engine, object(), self._ttl, AsyncGrant)
        if self._joined.get(group) is not joined:  # the group was left meanwhile
            self._engine.drop(newer)
            raise MemberNotJoined(group, self._member_id)
        older, joined.update = joined.update, newer
        if older is not None:
            await older.release()

    async def members(self, group: bytes) -> dict[bytes, Info]:
        await self._require(group)
        return await self._infos(group)

    async def member(self, group: bytes, member_id: bytes) -> Info:
        return await self._require_member(group, member_id)

    def drop_all(self) -> bool:
        """Leave all groups without waiting for the releases. Returns False if this member was in no group."""
        groups = list(self._joined)
        for group in groups:
            self._forget(group)
        return bool(groups)

    def _forget(self, group: bytes) -> None:
        joined = self._joined.pop(group, None)
        for grant in joined.grants() if joined else ():
            self._engine.drop(grant)

    async def _changing(self) -> AsyncGrant:
        """Acquire the lease of the list of groups."""
        settings = LeaseSettings(lease_names.GROUPS, min(self._ttl, _LIST_TTL), None, None, None, own=True)
        return await settings.acquire(self._engine, object(), None, AsyncGrant)

    async def _write(self, names: list[bytes], grant: AsyncGrant) -> None:
        await self._engine.records.write(
            lease_names.GROUPS, json.dumps([lease_names.quoted(name) for name in names]), grant
        )

    def _settings(self, name: str, capabilities: Capabilities | None) -> LeaseSettings:
        return LeaseSettings(name, self._ttl, None, None, {"capabilities": capabilities}, own=True)

    async def _require(self, group: bytes) -> None:
        if group not in await self.names():
            raise GroupNotCreated(group)

    async def _require_member(self, group: bytes, member_id: bytes) -> Info:
        info = (await self.members(group)).get(member_id)
        if info is None:
            raise MemberNotJoined(group, member_id)
        return info

    async def _infos(self, group: bytes) -> dict[bytes, Info]:
        """Returns the members with their newest capabilities. Ignores updates of an earlier member of the same id."""
        prefix = lease_names.members(group)
        held = [
            (lease_names.parsed(lease.name.removeprefix(prefix)), lease)
            for lease in await self._engine.records.held(prefix)
        ]
        members = {of.member_id: lease for of, lease in held if not of.updates}
        newest = dict(members)
        for of, lease in sorted(held, key=lambda pair: pair[0].updates):
            if of.updates and of.member_id in members and members[of.member_id].token == of.token:
                newest[of.member_id] = lease
        return {
            member_id: Info(
                json.loads(lease.metadata or "{}").get("capabilities"),
                as_date(members[member_id].acquired_at),
                as_date(lease.acquired_at),
            )
            for member_id, lease in newest.items()
        }
