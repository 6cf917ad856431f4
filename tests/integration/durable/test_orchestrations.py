"""Orchestrations on a real engine, in one process."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import create_async_engine

from interlock import (
    ActivityFailed,
    AsyncDurable,
    Attempt,
    DoNotRetry,
    OrchestrationCancelled,
    OrchestrationFailed,
    Orchestrations,
    Retry,
    Run,
    errors,
)
from interlock.durable.database import EngineDatabase
from interlock.durable.declarations import Registry
from interlock.durable.worker import ActivityWorker
from support.durable_victim import Context
from support.ports import closed_port
from support.postgres import execute, fresh_database
from support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

work = Orchestrations("tested")
calls: list[tuple[str, int]] = []
begun = asyncio.Event()


@dataclass
class Order:
    id: str
    amount: int


@work.activity(retry=Retry(attempts=3, first=0.01))
async def pay(attempt: Attempt, order: Order) -> int:
    calls.append((attempt.key, attempt.number))
    if order.amount == 13:
        raise ValueError("unlucky")
    if order.amount == 14:
        raise DoNotRetry("too much", code="quota")
    if order.amount == 15 and attempt.number < 3:
        raise OSError("not yet")
    return 2 * order.amount


@work.activity(retry=Retry(attempts=1))
async def hang(attempt: Attempt, order: Order) -> None:
    begun.set()
    await asyncio.Event().wait()


@work.activity(retry=Retry(attempts=1))
async def overtaken_once(attempt: Attempt, url: str) -> int:
    """Another worker begins the step during the first attempt."""
    if attempt.number == 1:
        await asyncio.to_thread(execute, url, "SELECT interlock.begin_attempt_v1(%s, %s, 1, 1)", *["overtaken"] * 2)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await attempt.fence(connection)
    return attempt.number


@work.orchestration()
async def be_overtaken(run: Run, url: str) -> int:
    return await run.call(overtaken_once, url)


@work.activity()
async def wrong_result(attempt: Attempt, order: Order) -> int:
    return "many"  # type: ignore[return-value]


@work.orchestration()
async def refund(run: Run, order: Order) -> str:
    return f"refunded {order.amount}"


@work.orchestration(cleanup=refund)
async def buy(run: Run, order: Order) -> int:
    return await run.call(pay, order)


@work.orchestration(cleanup=refund)
async def hang_around(run: Run, order: Order) -> None:
    await run.call(hang, order)


@work.orchestration()
async def buy_wrongly(run: Run, order: Order) -> int:
    return await run.call(wrong_result, order)


@work.orchestration()
async def buy_all(run: Run, amounts: list[int]) -> tuple[int, ...]:
    return await run.all(*(run.call(pay, Order("x", amount)) for amount in amounts))


@work.orchestration()
async def forgive(run: Run, order: Order) -> list[str]:
    try:
        await run.call(pay, order)
    except ActivityFailed as error:
        caught = error.code
    try:
        await run.child(buy, order)
    except OrchestrationFailed as error:
        return [caught, error.code]
    return []


@work.orchestration()
async def race(run: Run, order: Order) -> int:
    winner = await run.race(run.sleep(60), run.call(pay, order))
    return winner.index


@work.orchestration()
async def remember(run: Run, order: Order) -> list[datetime | UUID]:
    seen: list[datetime | UUID] = [await run.now(), await run.uuid()]
    await run.call(pay, order)
    return [*seen, await run.now()]


@work.orchestration()
async def collect(run: Run, wanted: int) -> list[int]:
    return [(await run.event("paid", Order)).amount for _ in range(wanted)]


@work.orchestration()
async def count(run: Run, so_far: list[int]) -> list[int]:
    event = await run.event("number", int)
    if event == 0:
        return so_far
    await run.continue_as_new([*so_far, event])
    raise AssertionError


@work.orchestration()
async def pay_often(run: Run, times: int) -> None:
    await run.call(pay, Order("often", 1))
    if times > 1:
        await run.continue_as_new(times - 1)
    await run.event("enough", bool)


@work.orchestration()
async def strays(run: Run, order: Order) -> None:
    await asyncio.sleep(0)


@work.orchestration(name="upgraded")
async def upgraded_1(run: Run, order: Order) -> str:
    event = await run.event("go", str)
    return f"{run.version} {event}"


@work.orchestration(name="upgraded", version="2.0.0")
async def upgraded_2(run: Run, order: Order) -> str:
    return run.version


@pytest.fixture(scope="module")
def url(server_url: str, template: str) -> Iterator[str]:
    """One replica for all tests: they do not affect each other, and the engine takes a second to create its tables."""
    with fresh_database(server_url, template) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(url: str) -> AsyncIterator[AsyncDurable]:
    async with AsyncDurable(work, url=url) as durable:
        yield durable


@pytest.fixture
def durable(replica: AsyncDurable) -> AsyncDurable:
    calls.clear()
    return replica


async def test_a_result_comes_back_with_its_type(durable: AsyncDurable) -> None:
    handle = await durable.start(buy, "one", Order("one", 21))
    assert await handle.wait(50) == 42
    assert calls == [("one/1.1", 1)]


async def test_the_same_again_changes_nothing_and_another_input_is_refused(durable: AsyncDurable) -> None:
    for _ in range(2):
        handle = await durable.start(buy, "same", Order("one", 21))
        assert await handle.wait(50) == 42
    with pytest.raises(errors.OrchestrationConflict, match="'same'"):
        await durable.start(buy, "same", Order("one", 22))
    with pytest.raises(errors.OrchestrationConflict, match="'same'"):
        await durable.start(refund, "same", Order("one", 21))
    assert calls == [("same/1.1", 1)]


async def test_a_failure_is_tried_again_as_the_policy_says(durable: AsyncDurable) -> None:
    assert await (await durable.start(buy, "late", Order("late", 15))).wait(50) == 30
    assert calls == [("late/1.1", 1), ("late/1.1", 2), ("late/1.1", 3)]


async def test_the_last_failure_keeps_its_code(durable: AsyncDurable) -> None:
    handle = await durable.start(buy, "bad", Order("bad", 13))
    with pytest.raises(OrchestrationFailed, match="unlucky") as failed:
        await handle.wait(50)
    assert (failed.value.code, failed.value.id) == ("value_error", "bad")
    assert [number for _, number in calls] == [1, 2, 3]


async def test_do_not_retry_ends_the_attempts(durable: AsyncDurable) -> None:
    handle = await durable.start(buy, "much", Order("much", 14))
    with pytest.raises(OrchestrationFailed, match="too much") as failed:
        await handle.wait(50)
    assert failed.value.code == "quota"
    assert len(calls) == 1


async def test_an_attempt_that_was_overtaken_does_not_count(durable: AsyncDurable, url: str) -> None:
    assert await (await durable.start(be_overtaken, "overtaken", url)).wait(50) == 3


async def test_a_step_waits_for_an_unreachable_database() -> None:
    class Absent(EngineDatabase):
        absences = 2

        async def fetch(self, name: str, *args: object) -> list[Any]:
            if self.absences:
                self.absences -= 1
                raise errors.ConnectionLost("The connection ended.")
            return [(7, datetime(2026, 1, 1, tzinfo=UTC))]

    database = Absent("postgresql://nowhere", "interlock")
    working = ActivityWorker(Registry(work), database, asyncio.get_running_loop())
    content = {"root": "x", "step": 1, "input": {"id": "x", "amount": 1}}
    assert await asyncio.to_thread(working.perform, "tested.pay", Context("x"), content) == 2
    assert (database.absences, calls[-1]) == (0, ("x/1.1", 7))


async def test_a_failed_orchestration_is_cleaned_up_by_another_one(durable: AsyncDurable) -> None:
    with pytest.raises(OrchestrationFailed):
        await (await durable.start(buy, "spent", Order("spent", 14))).wait(50)
    assert await cleaned(durable, "spent") == "refunded 14"
    assert (await durable.status("spent")).state == "failed"


async def cleaned(durable: AsyncDurable, id: str) -> str:  # noqa: A002
    """Wait for the clean-up, which a sweep records after the end."""
    return await durable.handle(refund, f"{id}:cleanup").wait(50)


async def test_errors_can_be_caught_where_they_come_from(durable: AsyncDurable) -> None:
    handle = await durable.start(forgive, "forgiven", Order("forgiven", 14))
    assert await handle.wait(50) == ["quota", "quota"]


async def test_steps_side_by_side_are_each_tried_again(durable: AsyncDurable) -> None:
    assert await (await durable.start(buy_all, "all", [1, 15, 2])).wait(50) == (2, 30, 4)
    assert sorted(calls) == [("all/1.1", 1), ("all/1.2", 1), ("all/1.2", 2), ("all/1.2", 3), ("all/1.3", 1)]


async def test_the_first_of_several_wins(durable: AsyncDurable) -> None:
    assert await (await durable.start(race, "race", Order("race", 1))).wait(50) == 1


async def test_time_and_chance_are_the_same_at_every_turn(durable: AsyncDurable) -> None:
    first, number, second = await (await durable.start(remember, "remember", Order("r", 1))).wait(50)
    assert isinstance(first, datetime)
    assert isinstance(second, datetime)
    assert first <= second
    assert abs(datetime.now(UTC) - first) < timedelta(minutes=1)
    assert isinstance(number, UUID)


async def test_events_are_kept_in_order_until_they_are_read(durable: AsyncDurable) -> None:
    handle = await durable.start(collect, "collect", 3)
    for amount in (1, 2, 3):
        await durable.send("collect", "paid", {"id": "x", "amount": amount})
    assert await handle.wait(50) == [1, 2, 3]


async def test_an_event_for_one_that_is_only_recorded_is_not_lost(durable: AsyncDurable, url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        handle = await durable.start(collect, "early", 1, connection=connection)
    await durable.send("early", "paid", {"id": "x", "amount": 7})
    assert await handle.wait(50) == [7]


async def test_events_are_kept_when_it_is_continued_as_new(durable: AsyncDurable) -> None:
    handle = await durable.start(count, "count", [])
    for number in (1, 2, 3, 0):
        await durable.send("count", "number", number)
    assert await handle.wait(50) == [1, 2, 3]
    assert (await durable.status("count")).execution == 4


async def test_an_orchestration_that_awaits_no_step_fails_with_that_error(durable: AsyncDurable) -> None:
    handle = await durable.start(strays, "strays", Order("s", 1))
    with pytest.raises(OrchestrationFailed, match="other than a step of its run"):
        await handle.wait(50)


async def test_a_result_of_another_type_is_refused(durable: AsyncDurable) -> None:
    handle = await durable.start(buy_wrongly, "wrongly", Order("w", 1))
    with pytest.raises(OrchestrationFailed, match="The result of wrong_result does not match its type") as failed:
        await handle.wait(50)
    assert failed.value.code == "invalid_value"


async def test_an_input_of_another_type_is_refused_at_once(durable: AsyncDurable) -> None:
    with pytest.raises(DoNotRetry, match="The input of buy"):
        await durable.start(buy, "wrong", {"id": 1})  # type: ignore[misc]
    with pytest.raises(errors.OrchestrationUnknown):
        await durable.status("wrong")


async def test_a_cancelled_orchestration_ends_and_is_cleaned_up(durable: AsyncDurable, url: str) -> None:
    handle = await durable.start(hang_around, "hung", Order("hung", 9))
    await asyncio.wait_for(begun.wait(), 50)
    await handle.cancel("enough")
    with pytest.raises(OrchestrationCancelled, match="enough"):
        await handle.wait(50)
    assert await cleaned(durable, "hung") == "refunded 9"
    assert (await handle.status()).state == "cancelled"
    assert execute(url, "SELECT root FROM interlock.attempt WHERE root = 'hung'") == []


async def test_an_orchestration_cancelled_before_its_start_never_runs(durable: AsyncDurable, url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        handle = await durable.start(buy, "unwanted", Order("unwanted", 5), connection=connection)
        await durable.cancel("unwanted", "no more", connection=connection)
    with pytest.raises(OrchestrationCancelled, match="no more"):
        await handle.wait(50)
    assert calls == []


async def test_cancelling_an_ended_orchestration_changes_nothing(durable: AsyncDurable) -> None:
    handle = await durable.start(buy, "done", Order("done", 1))
    await handle.wait(50)
    await handle.cancel()
    assert (await handle.status()).state == "completed"
    with pytest.raises(errors.OrchestrationUnknown):
        await durable.cancel("unknown")


async def test_a_running_orchestration_is_finished_by_its_own_version(durable: AsyncDurable) -> None:
    old = await durable.start(upgraded_1, "old", Order("old", 1))
    assert await (await durable.start(upgraded_2, "new", Order("new", 1))).wait(50) == "2.0.0"
    await durable.send("old", "go", "on")
    assert await old.wait(50) == "1.0.0 on"


async def test_requested_orchestrations_are_listed_with_their_history(durable: AsyncDurable) -> None:
    await (await durable.start(buy, "list-1", Order("1", 1))).wait(50)
    await (await durable.start(buy, "list-2", Order("2", 2))).wait(50)
    assert [(one.id, one.state, one.result) for one in await durable.list("list-")] == [
        ("list-2", "completed", 4),
        ("list-1", "completed", 2),
    ]
    assert await durable.list("other") == []
    kinds = [event.kind for event in await durable.history("list-1")]
    assert kinds == ["OrchestrationStarted", "ActivityScheduled", "ActivityCompleted", "OrchestrationCompleted"]


async def test_pruned_orchestrations_can_be_requested_again(durable: AsyncDurable, url: str) -> None:
    await (await durable.start(buy, "ancient", Order("old", 1))).wait(50)
    finished = "SELECT id FROM interlock.orchestration WHERE id = 'ancient' AND finished_at IS NOT NULL"
    await asyncio.to_thread(eventually, lambda: execute(url, finished))
    assert await durable.prune(3600) == 0
    assert await durable.prune(0) >= 1
    assert execute(url, "SELECT event_id FROM interlock_engine.history WHERE instance_id = 'ancient'") == []
    assert await (await durable.start(buy, "ancient", Order("old", 2))).wait(50) == 4


async def test_an_endless_orchestration_keeps_only_its_newest_history(durable: AsyncDurable, url: str) -> None:
    handle = await durable.start(count, "ever", [])
    for number in (1, 2, 3):
        await durable.send("ever", "number", number)
    executions = "SELECT count(*) FROM interlock_engine.executions WHERE instance_id = 'ever'"
    await asyncio.to_thread(eventually, lambda: execute(url, executions) == [(4,)])
    await durable.prune(3600)
    assert execute(url, executions) == [(2,)]
    await durable.send("ever", "number", 0)
    assert await handle.wait(50) == [1, 2, 3]


async def test_an_endless_orchestration_keeps_only_its_newest_attempts(durable: AsyncDurable, url: str) -> None:
    handle = await durable.start(pay_often, "often", 5)
    attempts = "SELECT execution FROM interlock.attempt WHERE root = 'often' ORDER BY execution"
    await asyncio.to_thread(eventually, lambda: execute(url, attempts) == [(1,), (2,), (3,), (4,), (5,)])
    await durable.prune(3600)
    assert len(execute(url, attempts)) == 5, "a replica that was stopped for a while may still come back"
    execute(url, "UPDATE interlock.attempt SET begun_at = begun_at - interval '2 days' WHERE root = 'often'")
    await durable.prune(3600)
    assert execute(url, attempts) == [(4,), (5,)]
    await durable.send("often", "enough", True)
    await handle.wait(50)


async def test_the_engine_refuses_to_work_after_a_fork(durable: AsyncDurable) -> None:
    child = copy(durable._engine)
    child._pid = os.getppid()
    with pytest.raises(errors.ConfigurationError, match="does not survive a fork"):
        await child.cancel("any", "")


async def test_asyncpg_records_in_a_transaction_of_its_own(durable: AsyncDurable, url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        with pytest.raises(errors.ConnectionUnfit, match="in no transaction"):
            await durable.start(buy, "asyncpg", Order("a", 1), connection=connection)
        async with connection.transaction():
            handle = await durable.start(buy, "asyncpg", Order("a", 1), connection=connection)
        assert await handle.wait(50) == 2
    finally:
        await connection.close()


async def test_a_rolled_back_request_never_happened(durable: AsyncDurable, url: str) -> None:
    engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    async with engine.connect() as connection:
        await durable.start(buy, "undone", Order("u", 1), connection=connection)
        await connection.rollback()
        await durable.start(buy, "kept", Order("k", 1), connection=connection)
        await connection.commit()
    await engine.dispose()
    assert await durable.handle(buy, "kept").wait(50) == 2
    with pytest.raises(errors.OrchestrationUnknown):
        await durable.status("undone")


async def test_a_clock_that_is_too_far_off_is_refused(interlock_url: str) -> None:
    ahead = "SELECT clock_timestamp() + interval ''60 seconds''"
    execute(
        interlock_url,
        f"CREATE OR REPLACE FUNCTION interlock.now_v1() RETURNS timestamptz LANGUAGE sql VOLATILE AS '{ahead}'",
    )
    with pytest.raises(errors.ClockSkewed, match=r"differ by [56]\d\.\d s, .* At most 2 s"):
        async with AsyncDurable(work, url=interlock_url):
            pass


async def test_a_missing_database_is_reported_at_once() -> None:
    with closed_port() as port, pytest.raises(errors.DatabaseUnreachable):
        async with AsyncDurable(work, url=f"postgresql://app@127.0.0.1:{port}/none"):
            pass


async def test_an_orchestration_in_the_engines_queue_is_not_started_again(interlock_url: str) -> None:
    async with AsyncDurable(work, url=interlock_url, concurrency=0) as asking:
        await asking.start(buy, "queued", Order("q", 1))
        async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
            await asking.start(buy, "recorded", Order("r", 1), connection=connection)
        execute(interlock_url, "UPDATE interlock.orchestration SET recorded_at = recorded_at - interval '1 minute'")
        for _ in range(2):
            await asking._outbox.sweep()
    queue = execute(interlock_url, "SELECT instance_id FROM interlock_engine.orchestrator_queue ORDER BY id")
    assert queue == [("queued",), ("recorded",)]


async def test_a_recorded_orchestration_can_be_started_at_once_unless_it_was_cancelled(interlock_url: str) -> None:
    async with AsyncDurable(work, url=interlock_url, concurrency=0) as asking:
        async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
            await asking.start(buy, "recorded", Order("r", 1), connection=connection)
            await asking.start(buy, "unwanted", Order("u", 1), connection=connection)
            await asking.cancel("unwanted", connection=connection)
        for id in ("recorded", "unwanted"):  # noqa: A001
            await asking.begin(id)
        with pytest.raises(errors.OrchestrationUnknown):
            await asking.begin("nothing")
    assert execute(interlock_url, "SELECT instance_id FROM interlock_engine.orchestrator_queue") == [("recorded",)]


async def test_the_primary_is_chosen_among_several_servers(url: str) -> None:
    with closed_port() as port:
        both = url.replace("@127.0.0.1:", f"@127.0.0.1:{port},127.0.0.1:")
        async with AsyncDurable(work, url=both, concurrency=0) as asking:
            assert await asking.list("of several") == []


async def test_two_replicas_can_make_the_engines_tables_at_the_same_time(interlock_url: str) -> None:
    async def once() -> None:
        async with AsyncDurable(work, url=interlock_url, concurrency=0):
            pass

    await asyncio.gather(*(once() for _ in range(4)))
