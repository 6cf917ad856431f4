"""Keeps records, one item for each, and makes guards: both rely on transactions that check that the grant is current.

Not every engine has transactions. Interlock checks for them before it reads the first record, because a caller that
reads a record is about to do work that has to be recorded.
"""

from contextlib import suppress
from typing import Any
from uuid import uuid4

from interlock import errors
from interlock.clock import boottime
from interlock.stores.capabilities import StoredRecord
from interlock.stores.dynamodb import row as rows
from interlock.stores.dynamodb.address import RECORDS
from interlock.stores.dynamodb.driver_errors import ConditionFailed
from interlock.stores.dynamodb.leases import DynamoLeases
from interlock.stores.dynamodb.row import Item, moment, shown
from interlock.stores.leases import GrantIdentity


async def require_transactions(leases: DynamoLeases) -> None:
    """Raises `NotSupported` if the server has no transactions.

    The test is an empty transaction: a server that has transactions refuses it as invalid.
    """
    with suppress(errors.StatementFailed, errors.PermissionMissing):
        await leases.client.call("transact_write_items", boottime() + leases.timeout, TransactItems=[])


async def read(leases: DynamoLeases, key: str) -> StoredRecord | None:
    answer = await leases.client.call(
        "get_item",
        boottime() + leases.timeout,
        TableName=leases.address.table,
        Key=await _key(leases, key),
        ConsistentRead=True,
    )
    if "Item" not in answer:
        return None
    item = answer["Item"]
    return StoredRecord(key, int(item["token"]["N"]), item["value"]["S"], moment(item["written_at"]))


async def write(leases: DynamoLeases, key: str, value: str, grant: GrantIdentity) -> bool:
    """All attempts have one `ClientRequestToken`: DynamoDB applies them once, so a retry cannot undo a later write."""
    item = await _key(leases, key) | {
        "token": {"N": str(grant.token)},
        "value": {"S": value},
        "written_at": shown(leases.wall_clock()),
    }
    try:
        await leases.client.call(
            "transact_write_items",
            boottime() + leases.timeout,
            TransactItems=[condition_check(leases, grant), {"Put": {"TableName": leases.address.table, "Item": item}}],
            ClientRequestToken=str(uuid4()),
        )
    except ConditionFailed:
        return False
    return True


async def _key(leases: DynamoLeases, key: str) -> Item:
    table = await leases.table()
    return {table.key: {"S": f"{RECORDS}{leases.address.prefix}{key}"}}


def condition_check(leases: DynamoLeases, grant: GrantIdentity) -> dict[str, Any]:
    """Returns a guard for `TransactItems` of TransactWriteItems: DynamoDB then refuses a grant that is not current.

    A grant is current until it is released or taken over. DynamoDB checks the grant together with the writes, and until
    the transaction has ended, no other process can take the lease. The table has to be known before the call, as it is
    to the holder of a grant.
    """
    key = leases.key_of(grant.name)
    return {
        "ConditionCheck": {
            "TableName": leases.address.table,
            "Key": key,
            "ConditionExpression": rows.MINE,
            "ExpressionAttributeNames": rows.names("", rows.MINE),
            "ExpressionAttributeValues": rows.mine(grant),
        }
    }
