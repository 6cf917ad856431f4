"""Transactions of INSERTs, with the guard of a held lease or without, on the user's own connections."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import asyncpg
import psycopg

from benchmarks.loads.protocol import Settings, answer, orders_async
from benchmarks.loads.tasks import rate
from interlock import AsyncGrant, AsyncInterlock

Write = Callable[[AsyncGrant | None], Awaitable[None]]
"""A transaction of these INSERTs, with the grant's guard if there is one."""

WARM_UP = 0.02  # seconds, run twice


async def run(settings: Settings) -> None:
    connect = {"asyncpg": asyncpg_writer, "psycopg": psycopg_writer}[settings["driver"]]
    writers = [await connect(settings["url"], settings["inserts"]) for _ in range(settings["workers"])]
    async with AsyncInterlock(settings["url"]) as locks, locks.lease("guarded", ttl=30) as grant:
        for guard in (grant, None) * 2:
            await rate(partial(_write, writers, guard), len(writers), WARM_UP)
        async for order in orders_async():
            guard = grant if order["guarded"] else None
            answer(await rate(partial(_write, writers, guard), len(writers), order["seconds"]))


async def _write(writers: list[Write], grant: AsyncGrant | None, worker: int) -> None:
    await writers[worker](grant)


async def asyncpg_writer(url: str, inserts: int) -> Write:
    connection = await asyncpg.connect(url)

    async def write(grant: AsyncGrant | None) -> None:
        async with connection.transaction():
            if grant is not None:
                await grant.guard(connection)
            for _ in range(inserts):
                await connection.execute("INSERT INTO raw.written (what) VALUES ($1)", "a line")

    return write


async def psycopg_writer(url: str, inserts: int) -> Write:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)

    async def write(grant: AsyncGrant | None) -> None:
        async with connection.transaction():
            if grant is not None:
                await grant.guard(connection)
            for _ in range(inserts):
                await connection.execute("INSERT INTO raw.written (what) VALUES (%s)", ["a line"])

    return write


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
