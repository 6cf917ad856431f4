"""Describes the table, checks that Interlock can use it, and creates the missing parts.

The table may have other data as well: its key has to be a single text attribute, under any name. The index, which may
be missing, is for listing leases: it has the keys of held leases, and renewals do not write to it.
"""

import asyncio
from typing import Any, NamedTuple

from interlock import errors
from interlock.clock import boottime
from interlock.stores.dynamodb.client import Client
from interlock.stores.dynamodb.row import ATTRIBUTES

INDEX = "interlock-held"
SHARD = "listing"
TTL = "ttl"

_READY_TIMEOUT = 600.0
_ANSWER_WITHIN = 5.0
_POLL_EVERY = 0.5


class LeaseTable(NamedTuple):
    """`key` is the name of the key; `deletes_by` is the attribute by which DynamoDB deletes items, if any."""

    key: str
    has_index: bool
    deletes_by: str | None = None

    @property
    def lacks(self) -> list[str]:
        """The optional parts that the table lacks, in words."""
        return [
            *(["the index by which leases are listed"] if not self.has_index else []),
            *(["deletion by ttl: items of unused leases stay"] if self.deletes_by != TTL else []),
        ]


async def describe(client: Client, seconds: float = _ANSWER_WITHIN) -> LeaseTable:
    """Returns the facts that leases need. Raises `SchemaMissing` or `SchemaForeign` if leases cannot use the table."""
    found = await _described(client, seconds)
    keys = {part["KeyType"]: part["AttributeName"] for part in found["KeySchema"]}
    types = {definition["AttributeName"]: definition["AttributeType"] for definition in found["AttributeDefinitions"]}
    if "RANGE" in keys or types[keys["HASH"]] != "S" or keys["HASH"] in ATTRIBUTES:
        raise errors.SchemaForeign(
            f"The table {client.address.table!r} cannot have leases: its key has to be a single text attribute, with a "
            "name that Interlock does not use for another attribute. Name another table, or create one with "
            "`interlock store create URL`."
        )
    indexes = found.get("GlobalSecondaryIndexes", ())
    return LeaseTable(keys["HASH"], any(index["IndexName"] == INDEX for index in indexes))


async def examine(client: Client) -> LeaseTable:
    """Returns all facts, also `deletes_by`, which only operators need."""
    table = await describe(client)
    description_answer = await client.call("describe_time_to_live", _deadline(), TableName=client.address.table)
    description = description_answer["TimeToLiveDescription"]
    enabled = description.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
    return table._replace(deletes_by=description.get("AttributeName") if enabled else None)


async def create(client: Client, key: str) -> LeaseTable:
    """Create the missing parts: the table, its index, its deletion by ttl. Concurrent calls are safe."""
    if key in ATTRIBUTES:
        raise errors.ConfigurationError(f"The key cannot be called {key!r}: Interlock uses that name for an attribute.")
    try:
        table = await describe(client)
    except errors.SchemaMissing:
        await _create_table(client, key)
        table = await describe(client)
    if not table.has_index:
        await _add_index(client, table.key)
    await _delete_by_ttl(client)
    return await examine(client)


async def _described(client: Client, seconds: float = _ANSWER_WITHIN) -> dict[str, Any]:
    answer = await client.call("describe_table", boottime() + seconds, TableName=client.address.table)
    found: dict[str, Any] = answer["Table"]
    return found


async def _create_table(client: Client, key: str) -> None:
    try:
        await client.call(
            "create_table",
            _deadline(),
            TableName=client.address.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=_definitions(key),
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            GlobalSecondaryIndexes=[_index(key)],
        )
    except errors.StatementFailed as error:
        if error.sqlstate != "ResourceInUseException":  # another process was first
            raise
    await _until_active(client)


async def _add_index(client: Client, key: str) -> None:
    await client.call(
        "update_table",
        _deadline(),
        TableName=client.address.table,
        AttributeDefinitions=_definitions(key),
        GlobalSecondaryIndexUpdates=[{"Create": _index(key)}],
    )
    await _until_active(client)


async def _delete_by_ttl(client: Client) -> None:
    """Make the table delete by `ttl`, unless it deletes by another attribute, or the engine cannot delete."""
    if (await examine(client)).deletes_by is not None:
        return
    try:
        await client.call(
            "update_time_to_live",
            _deadline(),
            TableName=client.address.table,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL},
        )
    except errors.NotSupported:
        return
    except errors.StatementFailed:
        if (await examine(client)).deletes_by is None:  # else another process was first
            raise


async def _until_active(client: Client) -> None:
    ends_at = boottime() + _READY_TIMEOUT
    while not _is_active(await _described(client)):
        if boottime() > ends_at:
            raise errors.DatabaseUnreachable(
                f"The table {client.address.table!r} was not ready after {_READY_TIMEOUT:g} s: see AWS's console."
            )
        await asyncio.sleep(_POLL_EVERY)


def _is_active(found: dict[str, Any]) -> bool:
    indexes = found.get("GlobalSecondaryIndexes", ())
    return found["TableStatus"] == "ACTIVE" and all(index["IndexStatus"] == "ACTIVE" for index in indexes)


def _definitions(key: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": "S"} for name in (key, SHARD)]


def _index(key: str) -> dict[str, Any]:
    return {
        "IndexName": INDEX,
        "KeySchema": [{"AttributeName": SHARD, "KeyType": "HASH"}, {"AttributeName": key, "KeyType": "RANGE"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def _deadline() -> float:
    return boottime() + _ANSWER_WITHIN
