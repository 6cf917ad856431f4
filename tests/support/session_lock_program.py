"""A process that acquires a session lock: ``python session_lock_program.py MODE URL [TTL]``. It prints its events, a
word and the time on each line, and reads orders from standard input.

    hold    acquires the lock, and holds it until there is input
    fork    the same, and forks before it reports the lock; the child prints its view, and stays
    count   25 times: acquires the lock, and adds one to a counter in a way that only a lock makes safe
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg

from interlock.errors import SessionLockLost
from support.session_locks import locks_at

ROUNDS = 25


def tell(*words: object) -> None:
    print(*words, time.time(), flush=True)


async def hold(url: str, ttl: float, *, forking: bool) -> None:
    try:
        async with locks_at(url)(ttl=ttl) as grant:
            if forking and os.fork() == 0:
                tell("child", grant.lost)
                await grant.release()
                signal.pause()
            tell("held")
            await asyncio.to_thread(sys.stdin.readline)
            grant.check()
        tell("released")
    except SessionLockLost:
        tell("lost")


async def count(url: str) -> None:
    lock = locks_at(url)()
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(ROUNDS):
            async with lock:
                ((value,),) = connection.execute("SELECT value FROM counter").fetchall()
                connection.execute("UPDATE counter SET value = %s", [value + 1])
    tell("counted")


if __name__ == "__main__":
    mode, url = sys.argv[1:3]
    ttl = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    asyncio.run(count(url) if mode == "count" else hold(url, ttl, forking=mode == "fork"))
