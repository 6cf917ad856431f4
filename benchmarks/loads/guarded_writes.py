"""Transactions of INSERTs, with the guard of a held lease or without, on the user's own connections.

With `standing` the guard stands on the connections, and the guarded transactions write a table that the lease protects;
else each calls it, and all write the same table.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
import psycopg

from benchmarks.loads.talk import Settings, answer, orders_async
from benchmarks.loads.tasks import rate
from interlock import AsyncGrant, AsyncInterlock

Write = Callable[[str, AsyncGrant | None], Awaitable[None]]

WARM_UP = 0.02  # seconds, twice
OPEN = "INSERT INTO raw.written (what) VALUES ($1)"
PROTECTED = "INSERT INTO raw.protected (what) VALUES ($1)"


@dataclass(frozen=True)
class Writer:
    """`write` is a transaction of those INSERTs, which calls the grant's guard if there is one."""

    connection: Any
    write: Write


async def run(settings: Settings) -> None:
    connect = {"asyncpg": asyncpg_writer, "psycopg": psycopg_writer}[settings["driver"]]
    writers = [await connect(settings["url"], settings["inserts"]) for _ in range(settings["workers"])]
    turn = standing if settings["standing"] else called
    async with AsyncInterlock(settings["url"]) as locks, locks.lease("guarded", ttl=30) as grant:
        for _ in range(2):
            await turn(writers, grant, WARM_UP)
            await called(writers, None, WARM_UP)
        async for order in orders_async():
            if order["guarded"]:
                answer(await turn(writers, grant, order["seconds"]))
            else:
                answer(await called(writers, None, order["seconds"]))


async def called(writers: list[Writer], grant: AsyncGrant | None, seconds: float) -> float:
    return await rate(partial(_write, writers, OPEN, grant), len(writers), seconds)


async def standing(writers: list[Writer], grant: AsyncGrant, seconds: float) -> float:
    async with AsyncExitStack() as stack:
        for writer in writers:
            await stack.enter_async_context(grant.guarding(writer.connection))
        return await rate(partial(_write, writers, PROTECTED, None), len(writers), seconds)


async def _write(writers: list[Writer], insert: str, grant: AsyncGrant | None, worker: int) -> None:
    await writers[worker].write(insert, grant)


async def asyncpg_writer(url: str, inserts: int) -> Writer:
    connection = await asyncpg.connect(url)

    async def write(insert: str, grant: AsyncGrant | None) -> None:
        async with connection.transaction():
            if grant is not None:
                await grant.guard(connection)
            for _ in range(inserts):
                await connection.execute(insert, "a line")

    return Writer(connection, write)


async def psycopg_writer(url: str, inserts: int) -> Writer:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
    written: dict[str, Any] = {insert: insert.replace("$1", "%s") for insert in (OPEN, PROTECTED)}

    async def write(insert: str, grant: AsyncGrant | None) -> None:
        async with connection.transaction():
            if grant is not None:
                await grant.guard(connection)
            for _ in range(inserts):
                await connection.execute(written[insert], ["a line"])

    return Writer(connection, write)


def main(settings: Settings) -> None:
    asyncio.run(run(settings))
