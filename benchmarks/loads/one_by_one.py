"""Renewal without rounds: one statement per lease, over one asyncpg connection with prepared statements."""

import asyncio
import time
import uuid

import asyncpg

from benchmarks.loads.protocol import Settings, answer, orders_async

Grant = tuple[str, int, uuid.UUID]

_ACQUIRE = """
    SELECT request, token FROM interlock.acquire_many_v1($1, $2, $3, $4, $5, 'one by one', NULL, NULL, NULL)
"""


async def run(settings: Settings) -> None:
    """Each order is answered with the seconds for one renewal of every lease."""
    connection = await asyncpg.connect(settings["url"])
    grants = await acquire(connection, [f"single-{number}" for number in range(settings["leases"])])
    renew = await connection.prepare("SELECT status FROM interlock.renew_v1($1, $2, $3, 3600)")
    async for _ in orders_async():
        begun_at = time.perf_counter()
        for grant in grants:
            assert await renew.fetchval(*grant) == "renewed"
        answer(time.perf_counter() - begun_at)


async def acquire(connection: "asyncpg.Connection[asyncpg.Record]", names: list[str]) -> list[Grant]:
    grant_ids = [uuid.uuid4() for _ in names]
    await connection.execute("SELECT interlock.register_v1($1)", names)
    rows = await connection.fetch(_ACQUIRE, names, grant_ids, *([each] * len(names) for each in (3600.0, None, False)))
    return [(names[row["request"] - 1], row["token"], grant_ids[row["request"] - 1]) for row in rows]


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
