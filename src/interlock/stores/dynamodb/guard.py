"""The guard: an item for a transaction of the user's own, which is then refused as a whole unless the grant is current.

Current is a grant that was neither given back nor taken over. DynamoDB decides that together with the writes, and until
it has, nobody else can take the lease.
"""

from typing import Any

from interlock.stores.dynamodb import row as rows
from interlock.stores.dynamodb.leases import DynamoLeases
from interlock.stores.leases import GrantIdentity


def condition_check(leases: DynamoLeases, grant: GrantIdentity) -> dict[str, Any]:
    """For `TransactItems` of TransactWriteItems; once the table is known, as it is to whoever has a grant."""
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
