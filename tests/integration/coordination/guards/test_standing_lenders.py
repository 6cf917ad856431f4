"""Pools of psycopg's that are told of a guard which stands: whatever they are, they give nobody its connection."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from interlock.coordination.guards import guarding_sync
from interlock.errors import GuardRefused
from support.holding import until
from support.leases import Grant
from support.lending import STANDING_THERE, asked, found, lending, lending_anew, write, written
from support.protection_scenarios import protected

NOBODY_GUARDS = ("", "IL002")

both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


@both
async def test_a_pool_that_takes_back_what_is_closed_is_told_as_well(grant: Grant, is_async: bool) -> None:
    async with lending(grant.url, is_async=is_async, close_returns=True) as lender:
        connection = await lender.borrow()
        block = lender.guarding(connection, grant)
        await block.__aenter__()
        await (connection.close() if is_async else asyncio.to_thread(connection.close))
        assert (await lender.next_finds())[1:] == NOBODY_GUARDS
        with pytest.raises(GuardRefused, match="give it back after the block"):
            await block.__aexit__(None, None, None)


@both
async def test_and_one_that_hands_a_connection_to_who_waits(grant: Grant, is_async: bool) -> None:
    async with lending_anew(grant.url, is_async=is_async) as lender:
        connection = await lender.borrow()
        pid = connection.info.backend_pid
        block = lender.guarding(connection, grant)
        await block.__aenter__()
        if is_async:
            waiting = asyncio.create_task(lender.borrow())
        else:
            waiting = asyncio.create_task(asyncio.to_thread(lender.pool.getconn, 60))
        await until(lambda: lender.pool.get_stats()["requests_waiting"] == 1)
        await lender.take_back(connection)
        other = await waiting
        found_pid, *rest = await found(other)
        assert found_pid != pid
        assert tuple(rest) == NOBODY_GUARDS
        await lender.take_back(other)
        with pytest.raises(GuardRefused, match="give it back after the block"):
            await block.__aexit__(None, None, None)


async def test_a_block_that_ends_while_the_pool_resets_the_connection_leaves_nothing_behind(grant: Grant) -> None:
    resetting, go_on = threading.Event(), threading.Event()

    def reset(connection: psycopg.Connection) -> None:
        connection.execute("SELECT 1")
        resetting.set()
        assert go_on.wait(60)
        connection.rollback()

    async with lending(grant.url, is_async=False, reset=reset) as lender:
        connection = await lender.borrow()
        block = lender.guarding(connection, grant)
        await block.__aenter__()
        await lender.take_back(connection)
        assert resetting.wait(60)
        with pytest.raises(GuardRefused, match="give it back after the block"):
            await block.__aexit__(None, None, None)
        go_on.set()
        assert (await lender.next_finds())[1:] == NOBODY_GUARDS


@both
async def test_a_pool_that_did_not_lend_it_changes_nothing(grant: Grant, is_async: bool) -> None:
    async with lending(grant.url, is_async=is_async) as lender, lending(grant.url, is_async=is_async) as stranger:
        async with stranger.connection() as connection, stranger.guarding(connection, grant):
            await write(connection, "a")
        async with lender.connection() as connection, lender.guarding(connection, grant):
            pid = connection.info.backend_pid
            with pytest.raises(ValueError, match="can't return connection to pool"):
                await stranger.take_back(connection)
            await write(connection, "b")
        assert await lender.next_finds() == (pid, *NOBODY_GUARDS)


async def test_a_pool_that_cannot_be_told_is_refused_before_anything_is_set(grant: Grant) -> None:
    async with lending(grant.url, is_async=False) as lender, lender.connection() as connection:
        time: Any = connection._expire_at
        del connection._expire_at
        with pytest.raises(GuardRefused, match="cannot be told to close it"):
            async with lender.guarding(connection, grant):
                raise AssertionError
        connection._expire_at = time
        assert await asked(connection, STANDING_THERE) == ""
        connection.rollback()
        assert await written(connection, "a") == "IL002"


@both
async def test_a_pool_takes_connections_back_as_it_did_before(grant: Grant, is_async: bool) -> None:
    async with lending(grant.url, is_async=is_async) as lender:
        for _ in range(2):
            connection = await lender.borrow()
            async with lender.guarding(connection, grant):
                pid = connection.info.backend_pid
            given_back = lender.pool.putconn(conn=connection)
            if is_async:
                await given_back
            assert await lender.next_finds() == (pid, *NOBODY_GUARDS)


async def test_so_does_one_whose_way_to_do_it_was_replaced(grant: Grant) -> None:
    async with lending(grant.url, is_async=False) as lender:
        taken_back = []

        def putconn(conn: Any) -> None:
            taken_back.append(conn)
            ConnectionPool.putconn(lender.pool, conn)

        lender.pool.putconn = putconn
        async with lender.connection() as connection, lender.guarding(connection, grant):
            await write(connection, "a")
        assert taken_back == [connection]


def test_a_pool_that_nobody_has_any_more_is_gone_at_once(grant: Grant) -> None:
    gc.disable()
    try:
        pool = ConnectionPool(grant.url, min_size=1, max_size=1, open=True)
        with pool, pool.connection() as connection, guarding_sync((grant,), connection):
            pass
        left = weakref.ref(pool)
        del pool
        assert left() is None
    finally:
        gc.enable()
