"""Lists the leases that are held: finds their keys in the index, and reads their items from the table.

DynamoDB's indexes may be a moment late, so the items are read from the table.
"""

from collections.abc import Sequence
from typing import Any

from interlock import errors
from interlock.clock import boottime
from interlock.stores.capabilities import HeldLease
from interlock.stores.dynamodb import row as rows
from interlock.stores.dynamodb.batch import all_of
from interlock.stores.dynamodb.leases import SHARDS, DynamoLeases
from interlock.stores.dynamodb.row import Item, Row
from interlock.stores.dynamodb.table import INDEX, SHARD

_WITHIN = 5.0
_AT_ONCE = 100
"""Items that one BatchGetItem takes."""


async def held(leases: DynamoLeases, prefix: str) -> list[HeldLease]:
    """Returns the held leases.

    `remaining` is the time for which this process would have to watch the lease from now: at first the whole ttl.
    """
    found = [row for row in await listed(leases, prefix) if not row.is_broken]
    told = [_as_held(row, leases.watch.remaining(row)) for row in found]
    return [lease for lease in told if lease.remaining > 0]


async def listed(leases: DynamoLeases, prefix: str) -> list[Row]:
    """Returns the items of the leases that have an owner, sorted by name."""
    table = await leases.table()
    if not table.has_index:
        raise errors.NotSupported(
            f"The table {leases.address.table!r} has no index {INDEX!r}, by which leases are listed: add the index "
            "with `interlock store create URL`."
        )

    async def in_shard(shard: int) -> list[Item]:
        return await _keys(leases, table.key, shard, leases.address.prefix + prefix)

    async def looked_up(keys: Sequence[Item]) -> list[Row]:
        return [rows.read(item, table.key, leases.address.prefix) for item in await _items(leases, keys)]

    keys = [key for found in await all_of(in_shard, range(SHARDS)) for key in found]
    batches = [keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE)]
    found = [row for batch in await all_of(looked_up, batches) for row in batch if row.owner_id is not None]
    return sorted(found, key=lambda row: row.name)


def _as_held(row: Row, remaining: float) -> HeldLease:
    return HeldLease(row.name, row.token, row.holder, row.host, row.pid, row.metadata, row.acquired_at, remaining)


async def _keys(leases: DynamoLeases, key: str, shard: int, prefix: str) -> list[Item]:
    found: list[Item] = []
    further: dict[str, Any] = {}
    while True:
        answer = await leases.client.call(
            "query",
            boottime() + _WITHIN,
            TableName=leases.address.table,
            IndexName=INDEX,
            KeyConditionExpression="#shard = :shard AND begins_with(#key, :prefix)",
            ExpressionAttributeNames={"#shard": SHARD, "#key": key},
            ExpressionAttributeValues={":shard": {"S": str(shard)}, ":prefix": {"S": prefix}},
            **further,
        )
        found += [{key: item[key]} for item in answer["Items"]]
        if not answer.get("LastEvaluatedKey"):
            return found
        further = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


async def _items(leases: DynamoLeases, keys: Sequence[Item]) -> list[dict[str, Any]]:
    table = leases.address.table
    asked: dict[str, Any] = {table: {"Keys": list(keys), "ConsistentRead": True}}
    found: list[dict[str, Any]] = []
    ends_at = boottime() + _WITHIN
    while asked:  # DynamoDB returns the keys that were too many at once
        answer = await leases.client.call("batch_get_item", ends_at, RequestItems=asked)
        found += answer["Responses"].get(table, ())
        asked = answer.get("UnprocessedKeys") or {}
    return found
