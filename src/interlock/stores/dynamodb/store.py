"""The store of a DynamoDB table: leases, their list, and records."""

from typing import Any

from interlock.stores.capabilities import HeldLease, StoredRecord
from interlock.stores.dynamodb import lease_list, records
from interlock.stores.dynamodb.leases import DynamoLeases
from interlock.stores.leases import GrantIdentity


class DynamoStore(DynamoLeases):
    """A `LeaseStore`. It lists leases if the table has the index, and has records if the engine has transactions."""

    _has_transactions = False

    async def held(self, prefix: str) -> list[HeldLease]:
        return await lease_list.held(self, prefix)

    async def read(self, key: str) -> StoredRecord | None:
        await self._require_transactions()
        return await records.read(self, key)

    async def write(self, key: str, value: str, grant: GrantIdentity) -> bool:
        await self._require_transactions()
        return await records.write(self, key, value, grant)

    async def _require_transactions(self) -> None:
        if not self._has_transactions:
            await records.require_transactions(self)
            self._has_transactions = True

    def guard_item(self, grant: GrantIdentity) -> dict[str, Any]:
        return records.condition_check(self, grant)
