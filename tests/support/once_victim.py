"""A process that takes effect under a key and dies before the effect is recorded.

python -m support.once_victim URL MODE     one of MODES
"""

import asyncio
import os
import sys
from functools import partial
from signal import SIGKILL
from typing import Any, Literal, get_args

import psycopg

from interlock import AsyncInterlock

EFFECTS = "CREATE TABLE effect (process integer)"
KEY = "charge:7"
TTL = 1.0
INSERT = "INSERT INTO effect VALUES (%s)"

Mode = Literal["again", "raise", "inside"]


async def charge(connection: psycopg.AsyncConnection[Any], dies: bool) -> int:
    """The effect counts when the connection commits: at once, or with its transaction."""
    await connection.execute(INSERT, [os.getpid()])
    if dies:
        os.kill(os.getpid(), SIGKILL)
    return os.getpid()


async def once(url: str, mode: Mode, *, dies: bool) -> Any:
    async with AsyncInterlock(url) as locks:
        if mode == "inside":
            async with await psycopg.AsyncConnection.connect(url) as connection:
                return await locks.once(KEY, partial(charge, connection, dies), ttl=TTL, connection=connection)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await locks.once(KEY, partial(charge, connection, dies), ttl=TTL, unfinished=mode)


if __name__ == "__main__":
    _, url, mode = sys.argv
    [known] = [one for one in get_args(Mode) if one == mode]
    asyncio.run(once(url, known, dies=True))
