"""The fence of an attempt, and the end of an orchestration while attempts are running."""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from interlock import Attempt, errors
from interlock.durable.database import EngineDatabase
from interlock.durable.outbox import Outbox
from support.postgres import execute
from support.waiting import eventually

LEVELS = [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]
ENGINE = """
    CREATE SCHEMA interlock_engine;
    CREATE TABLE interlock_engine.instances (instance_id text, current_execution_id bigint, created_at timestamptz);
    CREATE TABLE interlock_engine.executions (
        instance_id text, execution_id bigint, status text, output text, completed_at timestamptz);
"""
BEGIN = "SELECT attempt FROM interlock.begin_attempt_v1('it', 'it', 1, 1)"
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, "SELECT interlock.record_orchestration_v1('it', 'test', '1.0.0', '{}', 'undo', '1.0.0')")
    execute(interlock_url, "CREATE TABLE effect (attempt bigint)")
    execute(interlock_url, ENGINE)
    return interlock_url


def attempt(number: int) -> Attempt:
    return Attempt("it", "it", 1, 1, number, datetime(2026, 1, 1, tzinfo=UTC), "interlock")


def begin(url: str) -> int:
    [[number]] = execute(url, BEGIN)
    return int(number)


def ended_in_the_engine(url: str, status: str, output: str) -> None:
    execute(url, "INSERT INTO interlock_engine.instances VALUES ('it', 1, now())")
    execute(url, "INSERT INTO interlock_engine.executions VALUES ('it', 1, %s, %s, now())", status, output)


async def write(connection: psycopg.AsyncConnection[Any], number: int) -> None:
    await attempt(number).fence(connection)
    await connection.execute("INSERT INTO effect VALUES (%s)", [number])


class Elsewhere:
    """Work in a thread that waits for a lock of another session."""

    def __init__(self, work: Any) -> None:
        self.result: Any = None
        self._thread = threading.Thread(target=self._run, args=[work], daemon=True)
        self._thread.start()

    def _run(self, work: Any) -> None:
        self.result = work()

    def end(self) -> Any:
        self._thread.join(50)
        assert not self._thread.is_alive()
        return self.result


async def test_each_attempt_has_a_higher_number_and_the_time_of_the_first(url: str) -> None:
    assert [begin(url) for _ in range(3)] == [1, 2, 3]
    [[first]] = execute(url, "SELECT begun_at FROM interlock.attempt")
    again = execute(url, "SELECT attempt, begun_at FROM interlock.begin_attempt_v1('it', 'it', 1, 1)")
    assert again == [(4, first)]


@pytest.mark.parametrize("level", LEVELS)
async def test_an_effect_of_an_attempt_that_was_overtaken_is_refused(url: str, level: IsolationLevel) -> None:
    """The refusal also comes under a snapshot in which the attempt was still the newest."""
    begin(url)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.set_isolation_level(level)
        await connection.execute("SELECT count(*) FROM effect")
        begin(url)
        with pytest.raises((errors.AttemptSuperseded, errors.RetryTransaction)):
            await write(connection, 1)
        await connection.rollback()
        await write(connection, 2)
    assert execute(url, "SELECT attempt FROM effect") == [(2,)]


async def test_the_next_attempt_waits_for_an_open_effect_of_the_one_before(url: str) -> None:
    begin(url)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await write(connection, 1)
        successor = Elsewhere(lambda: begin(url))
        eventually(lambda: execute(url, WAITING))
        await connection.commit()
        assert successor.end() == 2
    assert execute(url, "SELECT attempt FROM effect") == [(1,)]


async def test_two_effects_of_one_attempt_do_not_hold_each_other_up(url: str) -> None:
    begin(url)
    async with (
        await psycopg.AsyncConnection.connect(url) as one,
        await psycopg.AsyncConnection.connect(url) as other,
    ):
        await write(one, 1)
        await write(other, 1)
    assert execute(url, "SELECT attempt FROM effect") == [(1,), (1,)]


async def test_a_fence_after_a_savepoint_is_refused(url: str) -> None:
    begin(url)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("INSERT INTO effect VALUES (0)")
        with pytest.raises(psycopg.DatabaseError, match="after a savepoint"):
            async with connection.transaction():
                await attempt(1).fence(connection)


async def test_a_fence_outside_a_transaction_is_refused(url: str) -> None:
    begin(url)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        with pytest.raises(errors.ConnectionUnfit, match="in no transaction"):
            await attempt(1).fence(connection)


async def settle(url: str) -> None:
    database = EngineDatabase(url, "interlock")
    try:
        await Outbox(database, None)._settle()  # type: ignore[arg-type] # it does not ask the engine
    finally:
        await database.close()


async def test_nothing_is_begun_or_written_after_the_end(url: str) -> None:
    begin(url)
    ended_in_the_engine(url, "Failed", "canceled: enough")
    await settle(url)
    assert execute(url, BEGIN) == []
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with pytest.raises(errors.AttemptSuperseded):
            await write(connection, 1)
    assert execute(url, "SELECT outcome FROM interlock.orchestration WHERE id = 'it'") == [("cancelled",)]
    assert execute(url, "SELECT name FROM interlock.orchestration WHERE id = 'it:cleanup'") == [("undo",)]


async def test_the_clean_up_is_recorded_after_the_last_effect_has_ended(url: str) -> None:
    begin(url)
    ended_in_the_engine(url, "Failed", "interlock-failure:{}")
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await write(connection, 1)
        settling = asyncio.create_task(settle(url))
        await asyncio.to_thread(eventually, lambda: execute(url, WAITING))
        assert execute(url, "SELECT id FROM interlock.orchestration WHERE finished_at IS NULL") == [("it",)]
        await connection.commit()
        await settling
    assert execute(url, "SELECT id FROM interlock.orchestration ORDER BY id") == [("it",), ("it:cleanup",)]


async def test_an_attempt_that_begins_while_the_end_is_recorded_waits_and_is_refused(url: str) -> None:
    ended_in_the_engine(url, "Completed", "1")
    with psycopg.connect(url) as ending:
        ending.execute("SELECT id FROM interlock.orchestration WHERE id = 'it' FOR UPDATE")
        late = Elsewhere(lambda: execute(url, BEGIN))
        eventually(lambda: execute(url, WAITING))
        ending.execute("UPDATE interlock.orchestration SET finished_at = now(), outcome = 'completed' WHERE id = 'it'")
    assert late.end() == []


async def test_an_end_is_recorded_once(url: str) -> None:
    ended_in_the_engine(url, "Failed", "canceled: ")
    await settle(url)
    first = execute(url, "SELECT * FROM interlock.orchestration ORDER BY id")
    await settle(url)
    assert execute(url, "SELECT * FROM interlock.orchestration ORDER BY id") == first


def test_concurrent_requests_under_one_id_wait_for_each_other(url: str) -> None:
    ask = "SELECT interlock.record_orchestration_v1('new', 'test', '1.0.0', %s, NULL, NULL)"
    with psycopg.connect(url) as first:
        assert first.execute(ask, ['{"a": 1}']).fetchone() == ("recorded",)
        second = Elsewhere(lambda: execute(url, ask, '{"a": 2}'))
        same = Elsewhere(lambda: execute(url, ask, '{"a": 1}'))
        eventually(lambda: len(execute(url, WAITING)) == 2)
    assert (second.end(), same.end()) == ([("different",)], [("same",)])
