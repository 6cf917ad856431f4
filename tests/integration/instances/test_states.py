"""The database itself enforces the states of an instance."""

from itertools import product
from typing import get_args

import asyncpg

from interlock.idempotency import Done, Refused, Replayed
from interlock.instances.model import TRANSITIONS, State
from interlock.instances.records import InstanceRecords
from support.postgres import execute

STATES = get_args(State)


async def test_a_row_moves_as_declared_and_not_otherwise(database_url: str) -> None:
    execute(database_url, "CREATE SCHEMA interlock")
    execute(database_url, "CREATE TABLE interlock.instance (id text PRIMARY KEY, state text NOT NULL)")
    connection = await asyncpg.connect(database_url)
    # Rows may begin in any state here, and what is installed after that is what is tested.
    await connection.executemany("INSERT INTO interlock.instance VALUES ($1, $1)", [(state,) for state in STATES])
    await connection.execute(InstanceRecords("interlock").machine.install_sql())
    for before, after in product(STATES, STATES):
        move = "UPDATE interlock.instance SET state = $2 WHERE id = $1"
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute(move, before, after)
        except asyncpg.CheckViolationError:
            moved = False
        else:
            moved = True
        await transaction.rollback()
        assert moved is (before == after or after in TRANSITIONS.get(before, {}).values()), (before, after)
    await connection.close()


async def test_creation_that_reports_after_a_delete_is_refused(database_url: str) -> None:
    execute(database_url, "CREATE SCHEMA interlock")
    execute(database_url, "CREATE TABLE interlock.instance (id text PRIMARY KEY, state text DEFAULT 'creating')")
    execute(database_url, InstanceRecords("interlock").machine.install_sql())
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO interlock.instance VALUES ('i-1')")
    for event, decision in [
        ("delete", Done),
        ("come_up", Refused),
        ("delete", Replayed),
        ("fail", Done),
        ("start", Refused),
        ("come_up", Refused),
        ("delete", Done),
        ("vanish", Done),
        ("delete", Refused),
    ]:
        async with connection.transaction():
            assert type(await InstanceRecords("interlock").machine.apply(connection, "i-1", event)) is decision, event
    await connection.close()
