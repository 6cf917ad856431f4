"""Orchestrations of three steps of a second each, which leave notes of everything that was begun and written."""

import asyncio
import os

import psycopg

from interlock.durable.attempt import Attempt
from interlock.durable.declarations import Orchestrations, Retry
from interlock.durable.run import Run

TABLES = """
    CREATE TABLE begun (key text, attempt bigint, pid integer, at timestamptz DEFAULT clock_timestamp());
    CREATE TABLE working (key text, attempt bigint, pid integer, at timestamptz DEFAULT clock_timestamp());
    CREATE TABLE written (key text, attempt bigint, pid integer, at timestamptz DEFAULT clock_timestamp());
"""

work = Orchestrations("steps")
parts = (work,)


async def _note(table: str, attempt: Attempt) -> None:
    async with await psycopg.AsyncConnection.connect(os.environ["STEPS_URL"]) as connection:
        if table == "written":
            await attempt.fence(connection)
        insert = f"INSERT INTO {table} (key, attempt, pid) VALUES (%s, %s, %s)"
        await connection.execute(insert, [attempt.key, attempt.number, os.getpid()])


async def _is_written(attempt: Attempt) -> bool:
    async with await psycopg.AsyncConnection.connect(os.environ["STEPS_URL"]) as connection:
        found = await connection.execute("SELECT FROM written WHERE key = %s", [attempt.key])
        return await found.fetchone() is not None


@work.activity(retry=Retry(attempts=30, first=0.5, longest=3), timeout=60)
async def take_a_second(attempt: Attempt, seconds: float) -> int:
    """Checks for an earlier result, works, and writes. Only the fence separates two attempts that both found none."""
    await _note("begun", attempt)
    if not await _is_written(attempt):
        await _note("working", attempt)
        await asyncio.sleep(seconds)
        await _note("written", attempt)
    return attempt.step


@work.orchestration()
async def three(run: Run, seconds: float) -> list[int]:
    return [await run.call(take_a_second, seconds) for _ in range(3)]
