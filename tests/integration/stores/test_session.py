"""A session on a real server: it raises Interlock's errors, and tasks that share it take turns."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Literal

import psycopg
import pytest

from interlock import errors
from interlock.stores.leases import Holder
from interlock.stores.postgres import Session, connect
from interlock.stores.postgres.leases import PostgresLeases
from support.postgres import execute
from support.waiting import eventually


@pytest.fixture
async def session(database_url: str) -> AsyncIterator[Session]:
    async with await connect(database_url, application_name="test") as session:
        yield session


def end(url: str, session: Session) -> None:
    execute(url, "SELECT pg_terminate_backend(%s, 10000)", session.announced_pid)


def until_it_works(url: str, session: Session) -> None:
    sleeping = "SELECT pid FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
    eventually(lambda: execute(url, sleeping, session.announced_pid))


async def test_answers_come_in_four_shapes(session: Session) -> None:
    assert [row["n"] for row in await session.fetch("SELECT generate_series(1, $1::int) AS n", 3)] == [1, 2, 3]
    assert await session.fetchrow("SELECT 1 WHERE false") is None
    assert await session.fetchval("SELECT $1::text", "x") == "x"
    assert await session.execute("CREATE TABLE a (); CREATE TABLE b ()") == "CREATE TABLE"


async def test_a_statement_that_is_refused_keeps_its_code(session: Session) -> None:
    with pytest.raises(errors.StatementFailed, match=r"refused a statement: division by zero\.$") as refusal:
        await session.fetchval("SELECT 1 / 0")
    assert refusal.value.sqlstate == "22012"
    assert await session.fetchval("SELECT 1") == 1


async def test_a_lock_that_is_not_to_be_had_in_time(database_url: str, session: Session) -> None:
    await session.execute("CREATE TABLE orders (); SET lock_timeout = '10ms'")
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE orders")
        with pytest.raises(errors.LockNotAvailable, match="lock timeout"):
            await session.fetch("SELECT FROM orders")


async def test_a_role_that_may_not(session: Session) -> None:
    await session.execute("CREATE TABLE orders (); SET ROLE pg_monitor")
    with pytest.raises(errors.PermissionMissing, match="permission denied for table orders"):
        await session.fetch("SELECT FROM orders")


async def test_an_answer_that_does_not_come_in_time(session: Session) -> None:
    with pytest.raises(errors.DatabaseUnreachable, match="did not answer in time"):
        await session.fetchval("SELECT pg_sleep(30)", timeout=0.05)
    assert await session.fetchval("SELECT 1") == 1


async def test_a_session_that_was_ended_while_it_sat_idle(database_url: str, session: Session) -> None:
    ended = asyncio.Event()
    session.on_end(ended.set)
    await asyncio.to_thread(end, database_url, session)
    await ended.wait()
    with pytest.raises(errors.ConnectionLost, match="ended"):
        await session.fetchval("SELECT 1")


async def test_a_session_that_was_ended_while_it_worked(database_url: str, session: Session) -> None:
    working = asyncio.create_task(session.fetchval("SELECT pg_sleep(30)"))
    await asyncio.to_thread(until_it_works, database_url, session)
    await asyncio.to_thread(end, database_url, session)
    with pytest.raises(errors.ConnectionLost):
        await working


async def test_a_session_that_was_ended_within_a_transaction(database_url: str, session: Session) -> None:
    async def work() -> None:
        async with session.transaction():
            await asyncio.to_thread(end, database_url, session)
            await session.fetchval("SELECT 1")

    with pytest.raises(errors.ConnectionLost):
        await work()


@pytest.mark.parametrize("setting", ["idle_in_transaction_session_timeout", "transaction_timeout"])
async def test_a_session_that_ran_into_a_time_out_of_the_servers(session: Session, setting: str) -> None:
    if not await session.fetchval("SELECT EXISTS (SELECT FROM pg_settings WHERE name = $1)", setting):
        pytest.skip(f"{setting} is of a newer PostgreSQL")
    await session.execute(f"SET {setting} = '20ms'")
    ended = asyncio.Event()
    session.on_end(ended.set)

    async def work() -> None:
        async with session.transaction():
            if setting == "transaction_timeout":
                await session.fetchval("SELECT pg_sleep(30)")
            await ended.wait()
            await session.fetchval("SELECT 1")

    with pytest.raises(errors.ConnectionLost):
        await work()


async def test_a_session_that_was_hung_up(session: Session) -> None:
    await session.abort()
    assert session.is_closed
    with pytest.raises(errors.ConnectionLost):
        await session.fetchval("SELECT 1")
    await session.close()


async def test_tasks_share_a_session_and_take_turns(session: Session) -> None:
    asked = [session.fetchval("SELECT $1::int FROM pg_sleep(0.001)", number) for number in range(20)]
    assert await asyncio.gather(*asked) == list(range(20))


async def test_a_task_does_not_get_into_the_transaction_of_another(session: Session) -> None:
    await session.execute("CREATE TABLE orders (number integer)")
    async with asyncio.TaskGroup() as tasks:
        with suppress(LookupError):
            async with session.transaction():
                await session.execute("INSERT INTO orders VALUES (1)")
                other = tasks.create_task(session.execute("INSERT INTO orders VALUES (2)"))
                await asyncio.sleep(0)
                await session.execute("INSERT INTO orders VALUES (3)")
                assert not other.done()
                raise LookupError
    assert [row["number"] for row in await session.fetch("SELECT number FROM orders")] == [2]


async def test_a_transaction_is_committed_at_its_end(database_url: str, session: Session) -> None:
    async with session.transaction():
        await session.execute("CREATE TABLE orders ()")
    assert execute(database_url, "SELECT count(*) FROM orders") == [(0,)]


async def test_a_refusal_at_the_end_of_a_transaction_is_converted(session: Session) -> None:
    await session.execute("CREATE TABLE orders (number integer CONSTRAINT one UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(errors.StatementFailed, match='violates unique constraint "one"'):
        async with session.transaction():
            await session.execute("INSERT INTO orders VALUES (1), (1)")


async def test_a_transaction_within_a_transaction_can_be_undone_alone(session: Session) -> None:
    await session.execute("CREATE TABLE orders (number integer)")
    async with asyncio.timeout(10), session.transaction():
        await session.execute("INSERT INTO orders VALUES (1)")
        with suppress(LookupError):
            async with session.transaction():
                await session.execute("INSERT INTO orders VALUES (2)")
                raise LookupError
        await session.execute("INSERT INTO orders VALUES (3)")
    assert [row["number"] for row in await session.fetch("SELECT number FROM orders ORDER BY 1")] == [1, 3]


async def test_a_cancelled_task_hands_its_turn_on(database_url: str, session: Session) -> None:
    working = asyncio.create_task(session.fetchval("SELECT pg_sleep(30)"))
    await asyncio.to_thread(until_it_works, database_url, session)
    working.cancel()
    assert await session.fetchval("SELECT 1") == 1
    with pytest.raises(asyncio.CancelledError):
        await working


async def asking_again_and_again(session: Session) -> None:
    for _ in range(100):
        await session.fetchval("SELECT 1")


async def test_a_session_that_was_just_ended_is_lost_whatever_the_driver_makes_of_it(database_url: str) -> None:
    for _ in range(20):
        async with await connect(database_url, application_name="test") as session:
            execute(database_url, "SELECT pg_terminate_backend(%s)", session.announced_pid)
            with pytest.raises(errors.ConnectionLost):
                await asking_again_and_again(session)


async def test_notifications_arrive_until_the_connection_ends(database_url: str, session: Session) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    await session.listen('Interlock of"7', heard.put_nowait)
    for payload in ("one", "", "two"):
        await asyncio.to_thread(execute, database_url, "SELECT pg_notify(%s, %s)", 'Interlock of"7', payload)
    assert [await heard.get() for _ in range(3)] == ["one", "", "two"]


async def test_a_closed_session_does_not_listen(session: Session) -> None:
    await session.abort()
    with pytest.raises(errors.ConnectionLost):
        await session.listen("anything", print)


async def test_a_session_has_a_descriptor_while_it_is_open(session: Session) -> None:
    assert session.descriptor is not None
    with socket.socket(fileno=os.dup(session.descriptor)) as same:
        assert same.getpeername()[1] == int(await session.fetchval("SHOW port"))
    await session.abort()
    assert session.descriptor is None


async def statements_kept(session: Session) -> int:
    for _ in range(3):
        await session.fetchval("SELECT $1::int", 1)
    return int(await session.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE statement ~ '^SELECT .1'"))


async def test_statements_stay_prepared_where_that_is_asked_for(database_url: str, session: Session) -> None:
    assert await statements_kept(session) == 0
    async with await connect(database_url, application_name="test", prepared=True) as hot:
        assert await statements_kept(hot) == 1


@pytest.fixture
async def strict_url(database_url: str) -> str:
    """The URL of a database whose roles use one snapshot for a whole transaction by default."""
    execute(
        database_url,
        f"ALTER DATABASE {database_url.rpartition('/')[2]} SET default_transaction_isolation = 'serializable'",
    )
    return database_url


async def test_a_transaction_sees_current_rows(strict_url: str) -> None:
    async with await connect(strict_url, application_name="test") as session:
        assert await session.fetchval("SHOW transaction_isolation") == "serializable"
        async with session.transaction():
            assert await session.fetchval("SHOW transaction_isolation") == "read committed"
            async with session.transaction():
                assert await session.fetchval("SHOW transaction_isolation") == "read committed"


@pytest.mark.parametrize("pooler", ["detect", "none"])
async def test_so_does_every_statement_of_a_lease_s(strict_url: str, pooler: Literal["detect", "none"]) -> None:
    store = PostgresLeases(strict_url, schema="interlock", holder=Holder("replica", "host", 1), pooler=pooler)
    session = await store.session()
    assert await session.fetchval("SHOW transaction_isolation") == "read committed"
    await store.close()
