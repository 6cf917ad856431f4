"""Renewal as it is without rounds: a statement for each lease, over one prepared asyncpg connection."""

import asyncio
import time
import uuid

import asyncpg

from benchmarks.loads.talk import Settings, answer, orders_async


async def run(settings: Settings) -> None:
    """Each turn answers with the seconds that it took to renew all leases once."""
    connection = await asyncpg.connect(settings["url"])
    acquire = await connection.prepare("SELECT token FROM interlock.acquire_v1($1, $2, 3600, 'one by one')")
    renew = await connection.prepare("SELECT status FROM interlock.renew_v1($1, $2, $3, 3600)")
    grants = []
    for number in range(settings["leases"]):
        name, grant_id = f"single-{number}", uuid.uuid4()
        grants.append((name, await acquire.fetchval(name, grant_id), grant_id))
    async for _ in orders_async():
        begun_at = time.perf_counter()
        for grant in grants:
            assert await renew.fetchval(*grant) == "renewed"
        answer(time.perf_counter() - begun_at)


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
