"""One of several processes that acquire and release the same lease as fast as they can.

    python hammer.py URL LOG GRANTS [brisk]

A brisk one does not wait for its releases.
While it holds the lease it adds a line with the grant's token to the log. Only one at a time may do so, and a line is
written at once: the log is in the order of the grants.
"""

import asyncio
import os
import sys

from interlock import AsyncInterlock


async def hammer(url: str, log: int, grants: int, brisk: bool) -> None:
    async with AsyncInterlock(url) as locks:
        lease = locks.lease("hammered", ttl=30, confirm_release=not brisk)
        for _ in range(grants):
            async with await lease.try_acquire() or await lease.acquire(timeout=50) as grant:
                os.write(log, f"{grant.token} {os.getpid()}\n".encode())


if __name__ == "__main__":
    _, url, path, grants, *kind = sys.argv
    asyncio.run(hammer(url, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), int(grants), kind == ["brisk"]))
