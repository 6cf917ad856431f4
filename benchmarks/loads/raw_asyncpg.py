"""The two raw statements of pgbench from Python: asyncpg, prepared, a connection for each worker, one event loop."""

import asyncio
import uuid

import asyncpg

from benchmarks.loads.protocol import Settings
from benchmarks.loads.tasks import serve_cycles

_ACQUIRE = """
    UPDATE raw.lease SET token = token + 1, grant_id = $2, holder = 'asyncpg', host = 'here', pid = 1,
        acquired_at = clock_timestamp(), renewed_at = clock_timestamp(),
        expires_at = clock_timestamp() + interval '30 s'
    WHERE name = $1 AND expires_at <= clock_timestamp() RETURNING token
"""
_RELEASE = """
    UPDATE raw.lease SET grant_id = NULL, expires_at = '-infinity' WHERE name = $1 AND grant_id = $2
    RETURNING set_config('synchronous_commit', 'off', true)
"""


async def run(url: str, workers: int) -> None:
    connections = [await asyncpg.connect(url) for _ in range(workers)]
    statements = [(await each.prepare(_ACQUIRE), await each.prepare(_RELEASE)) for each in connections]

    async def cycle(worker: int) -> None:
        name, grant_id = f"warm-{worker}", uuid.uuid4()
        acquire, release = statements[worker]
        await acquire.fetchval(name, grant_id)
        await release.fetchval(name, grant_id)

    await serve_cycles(cycle, workers)


def main(settings: Settings) -> None:
    asyncio.run(run(settings["url"], settings["workers"]))
