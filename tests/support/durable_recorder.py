"""A process that records an orchestration in a transaction of its own, and dies after the commit.

python -m support.durable_recorder URL MODULE
"""

import asyncio
import os
import sys
from signal import SIGKILL

import psycopg

from interlock.durable.replica import AsyncDurable
from support.durable_steps import three, work


async def record(url: str) -> None:
    async with AsyncDurable(work, url=url, concurrency=0) as durable:
        connection = await psycopg.AsyncConnection.connect(url)
        await durable.start(three, "recorded", 0.1, connection=connection)
        await connection.commit()
        os.kill(os.getpid(), SIGKILL)


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1]))
