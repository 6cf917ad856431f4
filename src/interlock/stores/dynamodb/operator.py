"""Lists and breaks the leases in a table, for operators.

One conditional UpdateItem breaks exactly the grant that was read. The holder's next renewal is refused, and so is the
holder's guard. Afterwards the item is free, or its owner is an id that no process has: a process that wants the lease
has to watch the item unchanged for the whole ttl, as for any lease that is not renewed.
"""

from uuid import uuid4

from interlock.clock import boottime
from interlock.stores.dynamodb import lease_list
from interlock.stores.dynamodb import row as rows
from interlock.stores.dynamodb.driver_errors import ConditionFailed
from interlock.stores.dynamodb.row import Row
from interlock.stores.dynamodb.store import DynamoStore


class DynamoOperations(DynamoStore):
    async def rows(self, prefix: str) -> list[Row]:
        """Returns the items of leases that are held, or were broken and are not free yet, sorted by name."""
        return await lease_list.listed(self, prefix)

    async def row(self, name: str) -> Row | None:
        await self.table()
        return await self._read(name, boottime() + self.timeout)

    async def break_lease(self, name: str, *, immediate: bool, reason: str | None, by: str) -> Row | None:
        """Returns the item as it was before the break, or None if the lease was not held or was released meanwhile."""
        seen = await self.row(name)
        if seen is None or seen.owner_id is None or (seen.is_broken and not immediate):
            return None
        return seen if await self._break(seen, f"{rows.BROKEN}{uuid4()}", immediate, reason, by) else None

    async def _break(self, seen: Row, broken_owner: str, immediate: bool, reason: str | None, by: str) -> bool:
        assert self._table is not None
        now = self.wall_clock()
        expression = rows.FREED if immediate else rows.TAKEN
        values = {
            ":seen_owner": {"S": seen.owner_id},
            ":seen_fence": {"N": str(seen.token)},
            ":by": {"S": by},
            ":at": rows.shown(now),
            ":reason": {"S": reason or ""},
            **({":ttl": rows.deleted_at(now, seen.ttl)} if immediate else {":broken_owner": {"S": broken_owner}}),
        }
        ends_at = boottime() + self.timeout
        try:
            await self.client.call(
                "update_item",
                ends_at,
                TableName=self.address.table,
                Key=self.key_of(seen.name),
                UpdateExpression=expression,
                ConditionExpression=rows.SEEN,
                ExpressionAttributeNames=rows.names(self._table.key, expression, rows.SEEN),
                ExpressionAttributeValues=values,
            )
        except ConditionFailed:  # the item has changed; or this request changed it, and its answer was lost
            found = await self._read(seen.name, ends_at)
            return found is not None and (
                found.owner_id == broken_owner
                or (found.owner_id is None and found.token == seen.token and found.last_owner_id == seen.owner_id)
            )
        return True
