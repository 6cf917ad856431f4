"""Guards on connections of asyncpg, from its pool or not."""

from typing import Any

from interlock.coordination.guards.call import Guarded, outside, parameters, statement


async def carry_async(grant: Guarded, connection: Any) -> None:
    if not connection.is_in_transaction():
        raise outside(grant, "guard inside `async with connection.transaction():`")
    await connection.execute(statement(grant.schema, "$1", "$2", "$3"), *parameters(grant))
