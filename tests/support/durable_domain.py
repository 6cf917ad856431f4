"""A domain in small: orders that reserve, charge and ship. Its activities are what the harness expects of all others.

Every effect is in one transaction with its event and with the fence, is found again by its key, and has the recorded
time of the step.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from interlock.durable.attempt import Attempt
from interlock.durable.declarations import Orchestrations
from interlock.durable.run import Run
from interlock.errors import ActivityFailed, DoNotRetry

TABLES = """
    CREATE TABLE reservation (
        order_id text PRIMARY KEY, quantity integer, reserved_at timestamptz, released_at timestamptz
    );
    CREATE TABLE charge (key text PRIMARY KEY, order_id text, amount integer);
    CREATE TABLE parcel (key text PRIMARY KEY, order_id text);
    CREATE TABLE event (subject text, kind text, at timestamptz, UNIQUE (subject, kind, at));
"""

EVENT = "INSERT INTO event (subject, kind, at) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"

work = Orchestrations("shop")
parts = (work,)


@dataclass
class Order:
    id: str
    quantity: int


@asynccontextmanager
async def effect(attempt: Attempt, kind: str, order: Order) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A transaction with the fence and the event."""
    async with await psycopg.AsyncConnection.connect(os.environ["STEPS_URL"]) as connection:
        await attempt.fence(connection)
        await connection.execute(EVENT, [order.id, kind, attempt.at])
        yield connection


@work.activity()
async def reserve(attempt: Attempt, order: Order) -> int:
    async with effect(attempt, "reserved", order) as connection:
        insert = "INSERT INTO reservation (order_id, quantity, reserved_at) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        await connection.execute(insert, [order.id, order.quantity, attempt.at])
    return order.quantity


@work.activity()
async def charge(attempt: Attempt, order: Order) -> str:
    if order.quantity > 100:
        raise DoNotRetry("The account has too little money.", code="too_expensive")
    async with effect(attempt, "charged", order) as connection:
        insert = "INSERT INTO charge (key, order_id, amount) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        await connection.execute(insert, [attempt.key, order.id, 10 * order.quantity])
    return attempt.key


@work.activity()
def ship(attempt: Attempt, order: Order) -> None:
    """A plain function; the others are coroutine functions."""
    with psycopg.connect(os.environ["STEPS_URL"]) as connection:
        attempt.fence(connection)
        connection.execute(EVENT, [order.id, "shipped", attempt.at])
        insert = "INSERT INTO parcel (key, order_id) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        connection.execute(insert, [attempt.key, order.id])


@work.activity()
async def release(attempt: Attempt, order: Order) -> None:
    """The time of the first release stays. An order that was released before its reservation cannot be reserved."""
    async with effect(attempt, "released", order) as connection:
        upsert = (
            "INSERT INTO reservation AS r (order_id, quantity, released_at) VALUES (%s, 0, %s)"
            " ON CONFLICT (order_id) DO UPDATE SET released_at = coalesce(r.released_at, excluded.released_at)"
        )
        await connection.execute(upsert, [order.id, attempt.at])


@work.orchestration()
async def undo(run: Run, order: Order) -> None:
    await run.call(release, order)


@work.orchestration()
async def send(run: Run, order: Order) -> None:
    await run.sleep(0.05)
    await run.call(ship, order)


@work.orchestration(cleanup=undo)
async def deliver(run: Run, order: Order) -> int:
    quantity = await run.call(reserve, order)
    await run.all(run.call(charge, order), run.child(send, order))
    return quantity


@work.orchestration()
async def deliver_twice(run: Run, order: Order) -> str:
    """An orchestration with a caught failure and a continuation."""
    try:
        await run.call(charge, Order(order.id, 1000))
    except ActivityFailed as error:
        if run.execution == 1:
            await run.continue_as_new(order)
        await run.call(reserve, order)
        return error.code
    return "cheap"
