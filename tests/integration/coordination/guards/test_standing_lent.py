"""Guards on connections that psycopg's pools have lent: whoever borrows next never writes as the one before."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from interlock.errors import GuardRefused
from support.holding import until
from support.leases import Grant, granted
from support.lending import (
    Lender,
    Reset,
    done,
    forgets_all,
    forgets_nothing,
    found,
    lending,
    write,
)
from support.postgres import execute
from support.protection_scenarios import protected
from support.protocol import rewrite

NOBODY_GUARDS = ("", "IL002")
END = "SELECT pg_terminate_backend(%s, 10000)"
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
SLEEPS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
RESETS: dict[str, Reset] = {
    "without reset": None,
    "reset that forgets nothing": forgets_nothing,
    "reset that forgets all": forgets_all,
}

both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
asynchronous = pytest.mark.parametrize("is_async", [True], ids=["async"])


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


@pytest.fixture(params=RESETS)
async def lender(request: pytest.FixtureRequest, grant: Grant, is_async: bool) -> AsyncIterator[Lender]:
    async with lending(grant.url, is_async=is_async, reset=RESETS[request.param]) as lender:
        yield lender


def notes(grant: Grant) -> list[str]:
    return [note for (note,) in execute(grant.url, "SELECT note FROM notes ORDER BY note")]


async def pid_of_next(lender: Lender) -> int:
    async with lender.connection() as connection:
        return int(connection.info.backend_pid)


async def fail_in_the_middle(lender: Lender, grant: Grant, statement: str) -> None:
    async with lender.connection() as connection, lender.guarding(connection, grant):
        await done(connection, "INSERT INTO notes VALUES ('in vain')")
        await done(connection, statement)
        raise ZeroDivisionError


async def be_cut_off(lender: Lender, grant: Grant) -> None:
    async with lender.connection() as connection, lender.guarding(connection, grant):
        assert execute(grant.url, END, connection.info.backend_pid) == [(True,)]
        raise ZeroDivisionError


async def give_back_and_fail(lender: Lender, grant: Grant) -> None:
    connection = await lender.borrow()
    async with lender.guarding(connection, grant):
        await lender.take_back(connection)
        raise ZeroDivisionError


@both
async def test_after_the_block_the_session_is_lent_on_without_the_guard(lender: Lender, grant: Grant) -> None:
    async with lender.connection() as connection, lender.guarding(connection, grant):
        pid = connection.info.backend_pid
        await write(connection, "a")
        await write(connection, "b")
    assert await lender.next_finds() == (pid, *NOBODY_GUARDS)
    assert notes(grant) == ["a", "b"]


@both
@pytest.mark.parametrize("statement", ["SELECT 1", "SELECT 1/0"])
async def test_so_it_is_after_an_error_in_a_transaction_sound_or_failed(
    lender: Lender, grant: Grant, statement: str
) -> None:
    pid = await pid_of_next(lender)
    with pytest.raises(Exception, match=r"zero|^$"):
        await fail_in_the_middle(lender, grant, statement)
    assert await lender.next_finds() == (pid, *NOBODY_GUARDS)
    assert notes(grant) == []


@asynchronous
async def test_so_it_is_after_a_body_that_was_cancelled_in_a_statement(lender: Lender, grant: Grant) -> None:
    pids = []

    async def body() -> None:
        async with lender.connection() as connection, lender.guarding(connection, grant):
            pids.append(connection.info.backend_pid)
            await done(connection, "INSERT INTO notes VALUES ('in vain')")
            await done(connection, "SELECT pg_sleep(600)")

    running = asyncio.create_task(body())
    await until(lambda: execute(grant.url, SLEEPS) == [(1,)])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await lender.next_finds() == (*pids, *NOBODY_GUARDS)
    assert notes(grant) == []


@both
async def test_so_it_is_where_the_guard_was_refused(lender: Lender, grant: Grant) -> None:
    async with lender.connection() as connection:
        pid = connection.info.backend_pid
        with pytest.raises(GuardRefused, match="is protected by that lease"):
            async with lender.guarding(connection, granted(grant.url, "other")):
                raise AssertionError
    assert await lender.next_finds() == (pid, *NOBODY_GUARDS)


@both
async def test_a_connection_that_is_given_back_in_the_block_is_lent_to_nobody(lender: Lender, grant: Grant) -> None:
    connection = await lender.borrow()
    pid = connection.info.backend_pid
    block = lender.guarding(connection, grant)
    await block.__aenter__()
    await lender.take_back(connection)
    other = await lender.borrow()
    found_pid, *rest = await found(other)
    assert found_pid != pid
    assert tuple(rest) == NOBODY_GUARDS
    await done(other, "CREATE TABLE others (note text)")
    with pytest.raises(GuardRefused, match="give it back after the block"):
        await block.__aexit__(None, None, None)
    await (other.commit() if lender.is_async else asyncio.to_thread(other.commit))
    await lender.take_back(other)
    assert execute(grant.url, "SELECT * FROM others") == []


@both
async def test_so_is_one_that_is_given_back_in_a_transaction(lender: Lender, grant: Grant) -> None:
    connection = await lender.borrow()
    block = lender.guarding(connection, grant)
    await block.__aenter__()
    await done(connection, "INSERT INTO notes VALUES ('in vain')")
    await lender.take_back(connection)
    assert (await lender.next_finds())[1:] == NOBODY_GUARDS
    with pytest.raises(GuardRefused, match="give it back after the block"):
        await block.__aexit__(None, None, None)
    assert notes(grant) == []


@both
async def test_and_one_with_a_guard_of_two_that_still_stands(lender: Lender, grant: Grant) -> None:
    execute(grant.url, "CREATE TABLE logs (log text); SELECT interlock.protect_v1('logs', 'other')")
    connection = await lender.borrow()
    blocks = [lender.guarding(connection, each) for each in (grant, granted(grant.url, "other"))]
    for block in blocks:
        await block.__aenter__()
    await blocks[1].__aexit__(None, None, None)
    await lender.take_back(connection)
    assert (await lender.next_finds())[1:] == NOBODY_GUARDS
    with pytest.raises(GuardRefused, match="give it back after the block"):
        await blocks[0].__aexit__(None, None, None)


@both
async def test_an_error_of_the_block_is_not_hidden_behind_that(lender: Lender, grant: Grant) -> None:
    with pytest.raises(ZeroDivisionError):
        await give_back_and_fail(lender, grant)
    assert (await lender.next_finds())[1:] == NOBODY_GUARDS


@both
async def test_a_session_that_is_ended_in_the_block_is_replaced(lender: Lender, grant: Grant) -> None:
    pid = await pid_of_next(lender)
    with pytest.raises(ZeroDivisionError):
        await be_cut_off(lender, grant)
    found_pid, *rest = await lender.next_finds()
    assert found_pid != pid
    assert tuple(rest) == NOBODY_GUARDS


@both
async def test_and_one_whose_guard_cannot_be_taken_away(lender: Lender, grant: Grant) -> None:
    connection = await lender.borrow()
    block = lender.guarding(connection, grant)
    await block.__aenter__()
    execute(grant.url, "ALTER FUNCTION interlock.stand_down_v1 RENAME TO gone_v1")
    with pytest.raises(psycopg.errors.UndefinedFunction):
        await block.__aexit__(None, None, None)
    await lender.take_back(connection)
    assert (await lender.next_finds())[1:] == NOBODY_GUARDS


@asynchronous
async def test_and_one_whose_task_was_cancelled_while_the_guard_was_taken_away(lender: Lender, grant: Grant) -> None:
    rewrite(grant.url, "stand_down_v1", "BEGIN", "BEGIN LOCK public.notes;")

    async def body() -> None:
        async with lender.connection() as connection, lender.guarding(connection, grant):
            ready.set()
            await leave.wait()

    ready, leave = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(body())
    await ready.wait()
    with psycopg.connect(grant.url) as other:
        other.execute("LOCK notes")
        leave.set()
        await until(lambda: execute(grant.url, WAITS) == [(1,)])
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert (await lender.next_finds())[1:] == NOBODY_GUARDS
