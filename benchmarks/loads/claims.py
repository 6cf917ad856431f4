"""Transactions that give a name an owner: by a claim, or by a bare INSERT into a table with a unique index."""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from functools import partial

import asyncpg
import psycopg

from benchmarks.loads.protocol import Settings, answer, orders_async
from benchmarks.loads.tasks import rate
from interlock import AsyncClaims, AsyncInterlock

INSERT = "INSERT INTO raw.claim (scope, name, owner, claimed_at) VALUES ({}, {}, {}, clock_timestamp()) RETURNING id"

Write = Callable[[str, bool], Awaitable[None]]


async def run(settings: Settings) -> None:
    connect = {"asyncpg": asyncpg_writer, "psycopg": psycopg_writer}[settings["driver"]]
    names = AsyncInterlock(settings["url"]).claims("bench")
    writers = [await connect(settings["url"], names) for _ in range(settings["workers"])]
    numbers = itertools.count()
    for write in writers:
        for claimed in (True, False):
            await write(f"{os.getpid()} {next(numbers)}", claimed)
    async for order in orders_async():
        cycle = partial(_write, writers, numbers, order["claimed"])
        answer(await rate(cycle, len(writers), order["seconds"]))


async def _write(writers: list[Write], numbers: "itertools.count[int]", claimed: bool, worker: int) -> None:
    await writers[worker](f"{os.getpid()} {next(numbers)}", claimed)


async def asyncpg_writer(url: str, names: AsyncClaims) -> Write:
    connection = await asyncpg.connect(url)
    insert = INSERT.format("$1", "$2", "$3")

    async def write(name: str, claimed: bool) -> None:
        async with connection.transaction():
            if claimed:
                await names.claim(connection, name, "an owner")
            else:
                await connection.fetchval(insert, "bench", name, "an owner")

    return write


async def psycopg_writer(url: str, names: AsyncClaims) -> Write:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
    insert = INSERT.format("%s", "%s", "%s")

    async def write(name: str, claimed: bool) -> None:
        async with connection.transaction():
            if claimed:
                await names.claim(connection, name, "an owner")
            else:
                cursor = await connection.execute(insert, ["bench", name, "an owner"])
                await cursor.fetchone()

    return write


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
