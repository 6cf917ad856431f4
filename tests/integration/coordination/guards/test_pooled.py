"""Users' connections through a pooler in transaction mode."""

import asyncpg
import psycopg
import pytest

from interlock.coordination.guards import guard, guard_sync
from interlock.errors import LeaseLost
from support.leases import granted, steal
from support.pooler import pooled
from support.postgres import execute


async def test_a_guard_uses_the_session_of_its_transaction(interlock_url: str) -> None:
    grant = granted(interlock_url)
    with pooled(interlock_url, "transaction", pool_size=2, in_turn=True) as url:
        with psycopg.connect(url, prepare_threshold=None) as connection:
            guard_sync(grant, connection)
            assert steal(grant) == "locked"
            connection.rollback()
            assert steal(grant) == "granted"
        connection_of_asyncpg = await asyncpg.connect(url, statement_cache_size=0)
        with pytest.raises(LeaseLost):
            async with connection_of_asyncpg.transaction():
                await guard(grant, connection_of_asyncpg)
        await connection_of_asyncpg.close()


def test_the_settings_of_a_guard_do_not_stay_in_the_poolers_session(interlock_url: str) -> None:
    grant = granted(interlock_url)
    with pooled(interlock_url, "transaction", pool_size=1) as url:
        with psycopg.connect(url, prepare_threshold=None) as connection:
            guard_sync(grant, connection)
        assert execute(url, "SHOW idle_in_transaction_session_timeout") == [("0",)]
        assert execute(url, "SELECT current_setting('interlock_guard.carried', true)") == [("",)]
