"""A commit that did not wait for the standby that commits are to wait for."""

import asyncio

import pytest

from interlock import errors
from interlock.stores.postgres import connect
from support.postgres import execute
from support.replication import primary_and_standby
from support.waiting import eventually

STOP_WAITING_FOR_STANDBY = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


async def test_a_statement_whose_commit_the_standby_did_not_confirm_is_not_reported_as_done() -> None:
    with primary_and_standby(synchronous=True) as pair:
        execute(pair.url, "CREATE TABLE note (number int)")
        pair.freeze()
        async with await connect(pair.primary_url, application_name="test") as session:
            doing = asyncio.create_task(session.fetch("INSERT INTO note VALUES (1) RETURNING number"))
            await asyncio.to_thread(eventually, lambda: execute(pair.primary_url, STOP_WAITING_FOR_STANDBY))
            with pytest.raises(errors.DatabaseUnreachable, match="standby"):
                await doing
            assert await session.fetchval("SELECT number FROM note") == 1
