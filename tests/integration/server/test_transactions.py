"""The connections for transactions on records."""

import asyncio
from typing import Any

import pytest

from interlock.aggregate.transactions import Transactions
from interlock.errors import NameTaken, RetryTransaction, StoreThrottled
from interlock.user_connections import run_steps
from support.api import Api
from support.postgres import execute
from support.waiting import eventually

OURS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'interlock api' AND datname = current_database()"


async def insert(connection: Any) -> None:
    def steps() -> Any:
        yield "INSERT INTO noted DEFAULT VALUES RETURNING 1", ()

    await run_steps(connection, steps())


@pytest.fixture
def noted(interlock_url: str) -> str:
    execute(interlock_url, "CREATE TABLE noted (at timestamptz DEFAULT now())")
    return interlock_url


async def test_a_transaction_in_conflict_is_rolled_back_and_repeated(noted: str) -> None:
    pool, attempts = Transactions(noted, "api"), []

    async def work(connection: Any) -> str:
        attempts.append(connection)
        await insert(connection)
        if len(attempts) < 3:
            raise RetryTransaction("Again.", sqlstate="40001")
        return "done"

    assert await pool.transact(work) == "done"
    assert execute(noted, "SELECT count(*) FROM noted") == [(1,)]
    await pool.close()


async def test_a_transaction_that_conflicts_every_time_raises_in_the_end(noted: str) -> None:
    pool = Transactions(noted, "api")

    async def work(connection: Any) -> None:
        raise RetryTransaction("Again.", sqlstate="40001")

    with pytest.raises(RetryTransaction):
        await pool.transact(work)
    await pool.close()


async def test_a_refused_transaction_writes_nothing_and_leaves_its_connection_usable(noted: str) -> None:
    pool = Transactions(noted, "api")

    async def work(connection: Any) -> None:
        await insert(connection)
        raise NameTaken("Taken.", name="a", owner="b")

    for _ in range(3):
        with pytest.raises(NameTaken):
            await pool.transact(work)
    assert execute(noted, "SELECT count(*) FROM noted") == [(0,)]
    assert len(execute(noted, OURS)) == 1
    await pool.close()
    await asyncio.to_thread(eventually, lambda: not execute(noted, OURS))


async def test_without_a_free_connection_the_caller_is_asked_to_retry(noted: str) -> None:
    pool = Transactions(noted, "api", size=1, timeout=0.05)
    async with pool.session() as session:
        with pytest.raises(StoreThrottled):
            await pool.transact(insert)
        await session.fetchval("SELECT 1")
    await pool.transact(insert)
    await pool.close()


async def test_a_cancelled_transaction_closes_its_connection(noted: str) -> None:
    pool, inside = Transactions(noted, "api"), asyncio.Event()

    async def work(connection: Any) -> None:
        await insert(connection)
        inside.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(pool.transact(work))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await pool.transact(insert)
    assert execute(noted, "SELECT count(*) FROM noted") == [(1,)]
    await pool.close()


async def test_after_a_restart_of_the_database_requests_are_answered_again(api: Api) -> None:
    assert (await api.client.get("/api/v1/instances")).status_code == 200
    execute(api.url, f"SELECT pg_terminate_backend(pid, 5000) FROM ({OURS}) AS ours")
    answers = [
        await api.client.get("/api/v1/instances") for _ in range(7)
    ]  # the first requests may use connections that have ended
    assert {answer.status_code for answer in answers} <= {200, 503}
    assert answers[-1].status_code == 200


async def test_an_unreachable_database_is_answered_with_503(api: Api) -> None:
    api.control.pool = Transactions("postgresql://shop:geheim@127.0.0.1:1/shop", "api")
    answer = await api.client.get("/api/v1/instances")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["code"] == "database_unreachable"
    assert "geheim" not in answer.text
