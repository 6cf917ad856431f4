"""The records: found, listed and pruned. The database enforces their states."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, get_args

import asyncpg
import psycopg
import pytest
from psycopg import errors as refusals

from interlock.aggregate.events import prune_events
from interlock.aggregate.table import Page
from interlock.instances.model import TRANSITIONS, State
from interlock.instances.records import InstanceRecord, InstanceRecords
from support.postgres import execute

RECORDS = InstanceRecords("interlock")
INSERT = """
    INSERT INTO interlock.instance (id, name, driver, orchestration, created_by, tags, created_at, updated_at)
    VALUES (%s, %s, 'paper', 'o', 'test', %s, %s, now())
"""


def add(url: str, name: str, tags: str = "{}", *, number: int = 0) -> str:
    made_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    execute(url, INSERT, f"id-{name}", name, tags, made_at)
    return f"id-{name}"


async def page(url: str, **wishes: Any) -> Page[InstanceRecord]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        return await RECORDS.page(connection, **wishes)


async def names(url: str, **wishes: Any) -> list[str]:
    return [one.name for one in (await page(url, **wishes)).items]


def test_the_database_refuses_every_change_that_is_not_declared(interlock_url: str) -> None:
    add(interlock_url, "one")
    with psycopg.connect(interlock_url, autocommit=True) as connection:
        for before, after in product(get_args(State), get_args(State)):
            connection.execute("ALTER TABLE interlock.instance DISABLE TRIGGER USER")
            connection.execute(moved_to(before), [before])
            connection.execute("ALTER TABLE interlock.instance ENABLE TRIGGER USER")
            try:
                connection.execute(moved_to(after), [after])
            except refusals.CheckViolation:
                moved = False
            else:
                moved = True
            assert moved is (before == after or after in TRANSITIONS.get(before, {}).values()), (before, after)


def moved_to(state: str) -> str:
    gone = "now()" if state == "deleted" else "NULL"
    return f"UPDATE interlock.instance SET state = %s, deleted_at = {gone}, names_freed_at = {gone}"


def test_a_row_begins_as_creating_and_two_never_hold_one_name(interlock_url: str) -> None:
    with pytest.raises(refusals.CheckViolation):
        execute(
            interlock_url,
            "INSERT INTO interlock.instance (id, name, driver, orchestration, created_by, state, created_at,"
            " updated_at) VALUES ('a', 'a', 'paper', 'o', 'test', 'running', now(), now())",
        )
    add(interlock_url, "shop")
    with pytest.raises(refusals.UniqueViolation):
        execute(interlock_url, INSERT, "other", "shop", "{}", datetime.now(UTC))
    execute(interlock_url, "UPDATE interlock.instance SET names_freed_at = now()")
    execute(interlock_url, INSERT, "other", "shop", "{}", datetime.now(UTC))


async def test_a_list_is_filtered_sorted_and_turned_page_by_page(interlock_url: str) -> None:
    for number, name in enumerate(["cherry", "apple", "banana", "damson", "elder"]):
        add(interlock_url, name, '{"team": "blue"}' if number % 2 else '{"team": "red"}', number=number)
    assert await names(interlock_url, sort="name") == ["apple", "banana", "cherry", "damson", "elder"]
    assert await names(interlock_url, sort="created") == ["cherry", "apple", "banana", "damson", "elder"]
    assert await names(interlock_url, tags={"team": "blue"}) == ["apple", "damson"]
    assert await names(interlock_url, name_part="an") == ["banana"]
    execute(interlock_url, "UPDATE interlock.instance SET state = 'running' WHERE name = 'apple'")
    assert await names(interlock_url, states=["running"]) == ["apple"]
    for descending in (False, True):
        turned: list[str] = []
        after = None
        while True:
            one = await page(interlock_url, sort="state", descending=descending, limit=2, after=after)
            turned += [instance.name for instance in one.items]
            after = one.following
            if after is None:
                break
        assert turned == await names(interlock_url, sort="state", descending=descending)
        assert len(turned) == 5
    execute(interlock_url, "UPDATE interlock.instance SET state = 'deleting' WHERE name = 'elder'")
    gone = "UPDATE interlock.instance SET state = 'deleted', deleted_at = now(), names_freed_at = now() WHERE name = %s"
    execute(interlock_url, gone, "elder")
    assert "elder" not in await names(interlock_url)
    assert "elder" in await names(interlock_url, deleted=True)


async def test_events_stand_once_and_what_is_old_is_pruned(interlock_url: str) -> None:
    id = add(interlock_url, "shop")  # noqa: A001
    now = datetime.now(UTC)
    old = now - timedelta(days=10)
    connection = await asyncpg.connect(interlock_url)
    async with connection.transaction():
        for at in (old, old, now):
            await RECORDS.events.note(connection, id, "come_up", at)
            await RECORDS.fetch(connection, "note_check", id, at, True, 1.0, "")
        assert len(await RECORDS.events.list(connection, id)) == len(await RECORDS.checks(connection, id)) == 2
        assert await prune_events(connection, "interlock", 20 * 86400, limit=100) == 0
        assert await RECORDS.prune_checks(connection, 86400, limit=100) == 1
        assert [event.recorded_at for event in await RECORDS.events.list(connection, id)] == [now, old]
        assert [check.recorded_at for check in await RECORDS.checks(connection, id)] == [now]
    await connection.close()
