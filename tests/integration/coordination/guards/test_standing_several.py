"""Guards of several leases that stand on a connection together: each for its own tables, and all of them or none."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from interlock import AsyncInterlock, Interlock
from interlock.connections import code_of
from interlock.coordination.guards import guarding, guarding_sync
from interlock.errors import GuardRefused, LeaseLost
from support.carriers import STANDING, Carrier, Kind
from support.guard_scenarios import released_and_taken
from support.holding import until
from support.leases import Grant, granted
from support.postgres import execute
from support.protection_scenarios import protected
from support.protocol import rewrite

PROTECTED = "CREATE TABLE {0} (note text); SELECT interlock.protect_v1('{0}', '{1}')"
STANDING_THERE = "SELECT coalesce(current_setting('interlock_guard.standing', true), '')"
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
TABLES = ("notes", "logs")

every_kind = pytest.mark.parametrize("kind", STANDING.values(), ids=STANDING)
either = pytest.mark.parametrize("place", [0, 1])

Pair = tuple[Grant, Grant]


@pytest.fixture
def grants(interlock_url: str) -> Pair:
    """Of the table `notes`, and of `logs`."""
    first = protected(interlock_url)
    execute(interlock_url, PROTECTED.format("logs", "o''ther\\"))
    return first, granted(interlock_url, "o'ther\\")


@pytest.fixture
async def carrier(kind: Kind, grants: Pair) -> AsyncIterator[Carrier]:
    async with kind(grants[0].url) as carrier:
        yield carrier


async def write(carrier: Carrier, *tables: str) -> None:
    async with carrier.transaction():
        for table in tables:
            await carrier.execute(f"INSERT INTO {table} VALUES ('a')")


async def written(carrier: Carrier, *tables: str) -> str:
    """The code that a transaction fails with that only writes, or `committed`."""
    try:
        await write(carrier, *tables)
    except Exception as error:
        return code_of(error) or "no code"
    return "committed"


def rows(grant: Grant, table: str) -> int:
    [(count,)] = execute(grant.url, f"SELECT count(*) FROM {table}")
    return int(count)


def standing(connection: psycopg.Connection) -> str:
    row = connection.execute(STANDING_THERE).fetchone()
    connection.rollback()
    assert row
    return str(row[0])


async def lose_one(carrier: Carrier, grants: Pair, place: int) -> None:
    async with carrier.guarding(*grants):
        await write(carrier, *TABLES)
        released_and_taken(grants[place])
        assert await written(carrier, TABLES[1 - place]) == "committed"
        assert await written(carrier, *TABLES) == "IL001"
        await write(carrier, TABLES[place])


@every_kind
@either
async def test_each_table_is_guarded_by_its_own_lease_and_the_block_says_which_was_lost(
    carrier: Carrier, grants: Pair, place: int
) -> None:
    with pytest.raises(LeaseLost) as lost:
        await lose_one(carrier, grants, place)
    assert (lost.value.name, lost.value.token) == (grants[place].name, grants[place].token)
    assert rows(grants[0], TABLES[place]) == 1
    assert rows(grants[0], TABLES[1 - place]) == 2
    assert [await written(carrier, table) for table in TABLES] == ["IL002", "IL002"]


@every_kind
@either
async def test_where_one_is_lost_before_the_block_none_stands(carrier: Carrier, grants: Pair, place: int) -> None:
    released_and_taken(grants[place])
    with pytest.raises(LeaseLost) as lost:
        async with carrier.guarding(*grants):
            raise AssertionError
    assert lost.value.name == grants[place].name
    assert [await written(carrier, table) for table in TABLES] == ["IL002", "IL002"]


@either
def test_where_one_is_not_trusted_any_more_nobody_is_asked(grants: Pair, place: int) -> None:
    grants[place].trusted = False
    with pytest.raises(LeaseLost, match="not trusted"):
        guarding_sync(grants, None).__enter__()


@every_kind
@either
async def test_one_that_stands_already_is_left_to_the_block_outside_and_the_other_does_not_stay(
    carrier: Carrier, grants: Pair, place: int
) -> None:
    async with carrier.guarding(grants[place]):
        with pytest.raises(GuardRefused, match="the block outside") as refused:
            async with carrier.guarding(*grants):
                raise AssertionError
        assert refused.value.name == grants[place].name
        assert await written(carrier, TABLES[place]) == "committed"
        assert await written(carrier, TABLES[1 - place]) == "IL002"


@every_kind
async def test_a_lease_that_protects_no_table_may_be_among_others_that_do(carrier: Carrier, grants: Pair) -> None:
    async with carrier.guarding(granted(grants[0].url, "a mail"), *grants):
        await write(carrier, *TABLES)
    assert [await written(carrier, table) for table in TABLES] == ["IL002", "IL002"]


@every_kind
async def test_where_none_of_them_protects_a_table_they_are_refused(carrier: Carrier, grants: Pair) -> None:
    others = (granted(grants[0].url, "a mail"), granted(grants[0].url, "a file"))
    with pytest.raises(GuardRefused, match=r"protected by any of the leases 'a mail', 'a file'.*protect_v1"):
        async with carrier.guarding(*others):
            raise AssertionError


@either
def test_a_session_is_ended_where_the_one_that_was_set_cannot_be_taken_away(grants: Pair, place: int) -> None:
    released_and_taken(grants[place])
    execute(grants[0].url, "ALTER FUNCTION interlock.stand_down_v1 RENAME TO gone_v1")
    connection = psycopg.connect(grants[0].url)
    with pytest.raises(GuardRefused) as refused:
        guarding_sync(grants, connection).__enter__()
    assert isinstance(refused.value.__cause__, psycopg.errors.UndefinedFunction)
    assert connection.closed


async def test_or_where_its_task_is_cancelled_meanwhile(grants: Pair) -> None:
    released_and_taken(grants[1])
    rewrite(grants[0].url, "stand_down_v1", "BEGIN", "BEGIN LOCK public.notes;")
    connection = await asyncpg.connect(grants[0].url)
    with psycopg.connect(grants[0].url) as other:
        other.execute("LOCK notes")
        entering = asyncio.ensure_future(guarding(grants, connection).__aenter__())
        await until(lambda: execute(grants[0].url, WAITS) == [(1,)])
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
    assert connection.is_closed()


def test_an_error_of_the_database_halfway_leaves_none_behind(grants: Pair) -> None:
    rewrite(grants[0].url, "stand_v1", "BEGIN", "BEGIN IF lease_name <> 'feeds' THEN PERFORM 1 / 0; END IF;")
    with psycopg.connect(grants[0].url) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            guarding_sync(grants, connection).__enter__()
        assert standing(connection) == ""


def test_a_block_inside_takes_away_its_own_alone(grants: Pair) -> None:
    third = granted(grants[0].url, "third")
    execute(grants[0].url, PROTECTED.format("thirds", "third"))
    with psycopg.connect(grants[0].url, autocommit=True) as connection, guarding_sync((third,), connection):
        with guarding_sync(grants, connection):
            connection.execute("INSERT INTO thirds VALUES ('a')")
        connection.execute("INSERT INTO thirds VALUES ('b')")
        with pytest.raises(psycopg.Error, match="may only be written"):
            connection.execute("INSERT INTO notes VALUES ('a')")
    assert rows(third, "thirds") == 2


def test_several_leases_at_once_have_it(interlock_url: str) -> None:
    execute(interlock_url, PROTECTED.format("a", "a") + ";" + PROTECTED.format("b", "b"))
    with Interlock(interlock_url) as locks, psycopg.connect(interlock_url) as connection:
        with locks.leases("b", "a") as grants, grants.guarding(connection):
            connection.execute("INSERT INTO a VALUES ('a'); INSERT INTO b VALUES ('b')")
            connection.commit()
        assert standing(connection) == ""
    assert execute(interlock_url, "SELECT * FROM a UNION SELECT * FROM b ORDER BY 1") == [("a",), ("b",)]


async def test_and_async_ones(interlock_url: str) -> None:
    execute(interlock_url, PROTECTED.format("a", "a") + ";" + PROTECTED.format("b", "b"))
    connection = await asyncpg.connect(interlock_url)
    async with AsyncInterlock(interlock_url) as locks:
        async with locks.leases("b", "a") as grants, grants.guarding(connection):
            await connection.execute("INSERT INTO a VALUES ('a'); INSERT INTO b VALUES ('b')")
        assert await connection.fetchval(STANDING_THERE) == ""
    await connection.close()
    assert execute(interlock_url, "SELECT * FROM a UNION SELECT * FROM b ORDER BY 1") == [("a",), ("b",)]


async def test_several_leases_in_a_sqlite_file_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'leases.db'}"
    async with AsyncInterlock(url) as locks, locks.leases("a", "b") as grants:
        with pytest.raises(GuardRefused, match="in each transaction"):
            grants.guarding(object())


def test_and_so_are_sync_ones(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'leases.db'}"
    with (
        Interlock(url) as locks,
        locks.leases("a", "b") as grants,
        pytest.raises(GuardRefused, match="in each transaction"),
    ):
        grants.guarding(object())
