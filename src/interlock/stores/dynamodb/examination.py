"""Examines a table before it is trusted with leases.

Nothing is changed: writes are sent with a condition that no item meets, and show only whether they are permitted.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from interlock import errors
from interlock.clock import boottime
from interlock.stores.dynamodb import records, table
from interlock.stores.dynamodb.address import TableAddress
from interlock.stores.dynamodb.driver_errors import ConditionFailed
from interlock.stores.dynamodb.leases import DynamoLeases
from interlock.stores.dynamodb.table import INDEX, SHARD, LeaseTable
from interlock.stores.leases import Holder

_NEVER = "attribute_exists(#key) AND attribute_not_exists(#key)"
_PROBE = "##doctor"


@dataclass(frozen=True)
class TableExamination:
    """`ttl_hidden` is True if these credentials may not see the table's `deletes_by`.

    `denied` are the refused operations that leases need, `cannot_list` those that are needed to list leases.
    """

    round_trip: float
    table: LeaseTable
    ttl_hidden: bool
    denied: list[str]
    cannot_list: list[str]
    has_transactions: bool


async def examine(address: TableAddress, timeout: float) -> TableExamination:
    """Raises an error if the table cannot be used at all."""
    leases = DynamoLeases(address, holder=Holder("interlock doctor", "", 0), timeout=timeout)
    try:
        await leases.verify()
        asked_at = boottime()
        found = await leases.table()
        await table.describe(leases.client, timeout)
        taken = boottime() - asked_at
        whole = await _deletion(leases)
        return TableExamination(
            taken,
            whole or found,
            whole is None,
            await _denied(leases, _needed(leases, found)),
            await _denied(leases, _listing(leases, found)) if found.has_index else [],
            await _has_transactions(leases),
        )
    finally:
        await leases.close()


async def _deletion(leases: DynamoLeases) -> LeaseTable | None:
    try:
        return await table.examine(leases.client)
    except errors.PermissionMissing:
        return None


def _needed(leases: DynamoLeases, found: LeaseTable) -> Mapping[str, dict[str, Any]]:
    key = leases.key_of(_PROBE)
    never = {"ConditionExpression": _NEVER, "ExpressionAttributeNames": {"#key": found.key}}
    return {
        "get_item": {"Key": key, "ConsistentRead": True},
        "put_item": {"Item": key, **never},
        "update_item": {
            "Key": key,
            "UpdateExpression": "REMOVE #metadata",
            "ConditionExpression": _NEVER,
            "ExpressionAttributeNames": {"#key": found.key, "#metadata": "metadata"},
        },
    }


def _listing(leases: DynamoLeases, found: LeaseTable) -> Mapping[str, dict[str, Any]]:
    return {
        "query": {
            "IndexName": INDEX,
            "KeyConditionExpression": "#shard = :shard",
            "ExpressionAttributeNames": {"#shard": SHARD},
            "ExpressionAttributeValues": {":shard": {"S": "0"}},
            "Limit": 1,
        },
        "batch_get_item": {"RequestItems": {leases.address.table: {"Keys": [leases.key_of(_PROBE)]}}},
    }


async def _denied(leases: DynamoLeases, operations: Mapping[str, dict[str, Any]]) -> list[str]:
    denied = []
    for operation, parameters in operations.items():
        named = {} if "RequestItems" in parameters else {"TableName": leases.address.table}
        try:
            with suppress(ConditionFailed):
                await leases.client.call(operation, boottime() + leases.timeout, **named, **parameters)
        except errors.PermissionMissing:
            denied.append(operation)
    return denied


async def _has_transactions(leases: DynamoLeases) -> bool:
    try:
        await records.require_transactions(leases)
    except errors.NotSupported:
        return False
    return True
