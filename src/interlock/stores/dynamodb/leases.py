"""Leases on DynamoDB, one item of a table for each.

Conditions. A process takes a lease by one conditional PutItem. Its condition is that the item is free, or that the item
is still unchanged after this process watched it unchanged for the whole ttl (see `watch`). The condition of renewals
and releases is that the item has their grant. No decision depends on an earlier read alone.

Lost answers. A request whose answer was lost is sent again: it then finds its own grant in the item, and renews it
before trusting it, because other processes may have watched the item for a while. A request that takes effect long
after it was sent, later than the next request of its grant, carries a smaller token than the item, and is refused.
A process that dies leaves its item as it is: other processes watch the item, and take over the lease.

There is no queue: it would be an item to which every waiter writes. The first request after the lease is free gets the
lease. So there are no notifications and no offers, and a lease cannot be handed over.
"""

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from interlock import errors
from interlock.clock import boottime
from interlock.stores.dynamodb import row as rows
from interlock.stores.dynamodb import table as tables
from interlock.stores.dynamodb.address import TableAddress
from interlock.stores.dynamodb.batch import each_of, gather_outcomes
from interlock.stores.dynamodb.client import Client
from interlock.stores.dynamodb.driver_errors import ConditionFailed
from interlock.stores.dynamodb.row import Item, Row
from interlock.stores.dynamodb.watch import LeaseWatch
from interlock.stores.leases import (
    AcquireAnswer,
    AcquireRequest,
    BrokenBy,
    GrantIdentity,
    Holder,
    OnTurn,
    ReleaseAnswer,
    RenewAnswer,
)

SHARDS = 8
"""Partitions of the index, each with its own key, so that no partition takes all the writes."""

_TRIES = 3
_ASK_AGAIN = 0.05


class DynamoLeases:
    """A `LeaseStore`. `timeout` is for one request with its retries. Tests pass their own clocks."""

    def __init__(
        self,
        address: TableAddress,
        *,
        holder: Holder,
        timeout: float = 5.0,
        clock: Callable[[], float] = boottime,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.address = address
        self.client = Client(address)
        self.watch = LeaseWatch(clock, wall_clock, address.max_clock_skew)
        self._holder = holder
        self.timeout = timeout
        self._clock = clock
        self.wall_clock = wall_clock
        self._table: tables.LeaseTable | None = None
        self._last_token = 0
        self._trusted_until: dict[UUID, float] = {}
        """The ends of this process's grants: until another process takes a lease, only its holder knows its expiry."""

    async def verify(self) -> None:
        """Raise an error if the table cannot be used."""
        self._table = await tables.describe(self.client, self.timeout)

    async def table(self) -> tables.LeaseTable:
        if self._table is None:
            await self.verify()
            assert self._table is not None
        return self._table

    async def acquire(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        await self.table()
        return await each_of(self._acquire, requests)

    async def release(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        await self.table()
        return await each_of(self._release, grants)

    async def hand_over(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        raise errors.NotSupported(
            "DynamoDB has no queue of waiters, so a lease cannot be handed over: release the lease."
        )

    async def renew(self, grants: Sequence[GrantIdentity], timeout: float) -> RenewAnswer:
        """A renewal that fails does not affect the others: it is listed in `locked`, and the caller repeats it soon."""
        await self.table()
        ends_at = boottime() + timeout

        async def renew(grant: GrantIdentity) -> _Refusal | None:
            return await self._try_to_renew(grant, ends_at)

        outcomes = await gather_outcomes(renew, grants)
        failed = {place: outcome for place, outcome in enumerate(outcomes) if isinstance(outcome, Exception)}
        if len(failed) == len(grants) > 0:
            raise next(iter(failed.values()))
        refused = {place: outcome for place, outcome in enumerate(outcomes) if isinstance(outcome, _Refusal)}
        broken = {place: refusal.broken for place, refusal in refused.items() if refusal.broken is not None}
        return RenewAnswer(list(refused), list(failed), boottime(), 0, broken)

    async def abandon(self, requests: Sequence[AcquireRequest]) -> list[UUID]:
        return []

    async def offer(self, names: Sequence[str]) -> list[UUID]:
        return []

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        return False

    async def unsubscribe(self) -> None:
        pass

    async def sweep(self, unused_for: float) -> int:
        """DynamoDB deletes unused items itself, by their `ttl`."""
        return 0

    async def close_idle(self, idle_for: float) -> bool:
        await self.client.close_idle(idle_for)
        return not self.client.is_open

    async def close(self) -> None:
        await self.client.close()

    def sever(self) -> None:
        """Drop every connection without a goodbye: the event loop has ended."""
        self.client.sever()

    def key_of(self, name: str) -> Item:
        """Returns the key of the lease's item. The table has to be known before the call."""
        assert self._table is not None
        return {self._table.key: {"S": self.address.prefix + name}}

    async def _acquire(self, request: AcquireRequest) -> AcquireAnswer:
        ends_at = boottime() + min(self.timeout, request.ttl / 2)
        # A waiter reads, and writes only if it may have the lease; a first request writes without reading.
        row = await self._read(request.name, ends_at) if self.watch.is_watched(request.name) else None
        for _ in range(_TRIES):
            if row is not None and row.is_held_by(request.grant_id):  # an answer was lost
                if await self._renew(Resent(request, row.token), ends_at):
                    return AcquireAnswer("granted", row.token, request.ttl, 0.0, None)
            elif row is not None and row.owner_id is not None and (left := self.watch.remaining(row)) > 0:
                return AcquireAnswer("busy", 0, 0.0, left, row.holder)
            else:
                sent_at = self._clock()
                token = self._draw_token(row)
                try:
                    await self._take(request, token, row, ends_at)
                except ConditionFailed as failed:
                    row = await self._found(failed, request.name, ends_at)
                    continue
                self.watch.forget(request.name)
                self._trusted_until[request.grant_id] = sent_at + request.ttl
                return AcquireAnswer("granted", token, request.ttl, 0.0, None)
            row = await self._read(request.name, ends_at)
        return AcquireAnswer("changing", 0, 0.0, _ASK_AGAIN, None)

    async def _take(self, request: AcquireRequest, token: int, seen: Row | None, ends_at: float) -> None:
        """Write this grant into the item, if the item is free, or is still in the state that was `seen`."""
        assert self._table is not None
        condition, values = rows.FREE, {":token": {"N": str(token)}}
        if seen is not None and seen.owner_id is not None:
            condition = rows.UNCHANGED
            values = {
                ":seen_owner": {"S": seen.owner_id},
                ":seen_fence": {"N": str(seen.token)},
                ":seen_version": {"N": str(seen.version)},
            }
        await self.client.call(
            "put_item",
            ends_at,
            TableName=self.address.table,
            Item=self._item(request, token),
            ConditionExpression=condition,
            ExpressionAttributeNames=rows.names(self._table.key, condition),
            ExpressionAttributeValues=values,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    def _item(self, request: AcquireRequest, token: int) -> Item:
        now = self.wall_clock()
        item = self.key_of(request.name) | {
            "lock_type": {"S": "lease"},
            "owner_id": {"S": str(request.grant_id)},
            "fence": {"N": str(token)},
            "version": _version(self._clock()),
            "lease_seconds": {"N": repr(request.ttl)},
            "created_at": rows.shown(now),
            "expires_at": rows.shown(now + request.ttl),
            "holder": {"S": self._holder.replica},
            "host": {"S": self._holder.host},
            "pid": {"N": str(self._holder.pid)},
            tables.SHARD: {"S": str(zlib.crc32(request.name.encode()) % SHARDS)},
            tables.TTL: rows.deleted_at(now, request.ttl),
        }
        return item if request.metadata is None else item | {"metadata": _text(request.metadata)}

    async def _renew(self, grant: GrantIdentity, ends_at: float) -> bool:
        return await self._try_to_renew(grant, ends_at) is None

    async def _try_to_renew(self, grant: GrantIdentity, ends_at: float) -> "_Refusal | None":
        sent_at = self._clock()
        if sent_at >= self._trusted_until.get(grant.grant_id, sent_at + 1.0):
            self._trusted_until.pop(grant.grant_id, None)
            return _Refusal(None)
        now = self.wall_clock()
        values = {
            ":version": _version(sent_at),
            ":expires_at": rows.shown(now + grant.ttl),
            ":ttl": rows.deleted_at(now, grant.ttl),
        }
        try:
            await self._update(grant, rows.RENEW, f"{rows.MINE} AND {rows.NOT_OLDER}", values, ends_at)
        except ConditionFailed as failed:
            self._trusted_until.pop(grant.grant_id, None)
            row = await self._found(failed, grant.name, ends_at)
            breaking = None if row is None else row.broken_of(grant)
            return _Refusal(breaking and BrokenBy(breaking.done_by, breaking.reason))
        self._trusted_until[grant.grant_id] = sent_at + grant.ttl
        return None

    async def _release(self, grant: GrantIdentity) -> ReleaseAnswer:
        self._trusted_until.pop(grant.grant_id, None)
        ends_at = boottime() + self.timeout
        values = {":ttl": rows.deleted_at(self.wall_clock(), grant.ttl)}
        try:
            await self._update(grant, rows.RELEASE, rows.MINE, values, ends_at)
        except ConditionFailed as failed:
            row = await self._found(failed, grant.name, ends_at)
            if row is None or row.token != grant.token or row.last_owner_id != str(grant.grant_id):
                return ReleaseAnswer("lost", None, False)
            if row.broken is not None:
                await self._end_broken(grant, ends_at)
                return ReleaseAnswer("lost", None, False)
        return ReleaseAnswer("released", None, False)  # now, or by a request whose answer was lost

    async def _end_broken(self, grant: GrantIdentity, ends_at: float) -> None:
        """The holder of a broken lease has stopped: free the lease, so that waiters need not watch it."""
        values = {":ttl": rows.deleted_at(self.wall_clock(), grant.ttl), ":broken": {"S": rows.BROKEN}}
        with suppress(ConditionFailed):  # free by now, or another's
            await self._update(grant, rows.END_BROKEN, rows.IS_BROKEN, values, ends_at)

    async def _update(
        self, grant: GrantIdentity, expression: str, condition: str, values: Mapping[str, Any], ends_at: float
    ) -> None:
        assert self._table is not None
        await self.client.call(
            "update_item",
            ends_at,
            TableName=self.address.table,
            Key=self.key_of(grant.name),
            UpdateExpression=expression,
            ConditionExpression=condition,
            ExpressionAttributeNames=rows.names(self._table.key, expression, condition),
            ExpressionAttributeValues={**values, **rows.mine(grant)},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    async def _found(self, failed: ConditionFailed, name: str, ends_at: float) -> Row | None:
        """Returns the item that failed the condition. If the engine did not report the item, it is read."""
        assert self._table is not None
        if failed.item is None:
            return await self._read(name, ends_at)
        return rows.read(failed.item, self._table.key, self.address.prefix)

    async def _read(self, name: str, ends_at: float) -> Row | None:
        assert self._table is not None
        answer = await self.client.call(
            "get_item", ends_at, TableName=self.address.table, Key=self.key_of(name), ConsistentRead=True
        )
        item = answer.get("Item")
        return None if item is None else rows.read(item, self._table.key, self.address.prefix)

    def _draw_token(self, seen: Row | None) -> int:
        """Returns a token that is greater than the item's token, and than all tokens that this process has drawn."""
        self._last_token = max(int(self.wall_clock() * 1_000_000), self._last_token + 1)
        return self._last_token if seen is None else max(self._last_token, seen.token + 1)


def _text(value: str) -> dict[str, str]:
    """Returns the value of a text attribute. Refuses text that is not Unicode, because only some engines refuse it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise errors.StatementFailed("Metadata has to be text that can be written in UTF-8.") from error
    return {"S": value}


def _version(moment: float) -> dict[str, str]:
    """Returns a version by the holder's clock: it grows with each renewal. A renewal that is sent again keeps it."""
    return {"N": str(int(moment * 1_000_000))}


class _Refusal(NamedTuple):
    """A refused renewal: the grant is not current. `broken` is set if an operator broke the grant."""

    broken: BrokenBy | None


class Resent:
    """The grant of a request whose answer was lost."""

    __slots__ = ("grant_id", "name", "token", "ttl")

    def __init__(self, request: AcquireRequest, token: int) -> None:
        self.name = request.name
        self.grant_id = request.grant_id
        self.ttl = request.ttl
        self.token = token
