"""A process that claims one name for many owners at once, each in a transaction of its own.

It prints "ready" when its connections are open, begins at a line of input, and prints the answers.
"""

import asyncio
import json
import sys

import asyncpg

from interlock import AsyncInterlock
from interlock.coordination.claims import Claimed, Taken

CONNECTIONS = 14


async def main(url: str, name: str, owners: list[str]) -> None:
    names = AsyncInterlock(url).claims("dns")
    async with asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:

        async def claim(owner: str) -> tuple[str, str, str]:
            async with pool.acquire() as connection, connection.transaction():
                match await names.claim(connection, name, owner, timeout=30):
                    case Claimed(owner=winner):
                        return owner, "claimed", winner
                    case Taken(owner=winner):
                        return owner, "taken", winner
                    case other:
                        return owner, repr(other), ""

        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print(json.dumps(await asyncio.gather(*map(claim, owners))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3].split(",")))
