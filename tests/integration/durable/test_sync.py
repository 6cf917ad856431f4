"""Orchestrations for programs without an event loop, requested by threads."""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from interlock import (
    Attempt,
    DoNotRetry,
    Durable,
    OrchestrationCancelled,
    OrchestrationFailed,
    Orchestrations,
    Retry,
    Run,
    errors,
)
from support.postgres import execute, fresh_database
from support.waiting import eventually

work = Orchestrations("plain")
threads: list[threading.Thread] = []
begun, go_on = threading.Event(), threading.Event()


@work.activity(retry=Retry(attempts=2, first=0.01))
def pay(attempt: Attempt, amount: int) -> int:
    """A plain function, which blocks only its own thread."""
    threads.append(threading.current_thread())
    if amount == 13:
        raise DoNotRetry("unlucky", code="unlucky")
    with psycopg.connect(os.environ["STEPS_URL"]) as connection:
        attempt.fence(connection)
        insert = "INSERT INTO payment (key, amount) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        connection.execute(insert, [attempt.key, amount])
    return 2 * amount


@work.activity()
async def pay_on_the_loop(attempt: Attempt, amount: int) -> int:
    await asyncio.sleep(0)
    return 3 * amount


@work.activity()
def be_overtaken(attempt: Attempt, amount: int) -> int:
    """Another worker begins the step during the first attempt."""
    url = os.environ["STEPS_URL"]
    if attempt.number == 1:
        execute(url, "SELECT interlock.begin_attempt_v1(%s, %s, 1, 1)", attempt.root, attempt.orchestration)
    with psycopg.connect(url) as connection:
        attempt.fence(connection)
    return attempt.number


@work.activity()
def wait_for_the_test(attempt: Attempt, amount: int) -> int:
    begun.set()
    assert go_on.wait(50)
    return amount


@work.orchestration()
async def give_back(run: Run, amount: int) -> str:
    return f"gave {amount} back"


@work.orchestration(cleanup=give_back)
async def buy(run: Run, amount: int) -> list[int]:
    return [await run.call(pay, amount), await run.call(pay_on_the_loop, amount)]


@work.orchestration()
async def overtaken(run: Run, amount: int) -> int:
    return await run.call(be_overtaken, amount)


@work.orchestration()
async def waited_for(run: Run, amount: int) -> int:
    return await run.call(wait_for_the_test, amount)


@work.orchestration()
async def hear(run: Run, amount: int) -> int:
    return amount + await run.event("more", int)


@pytest.fixture(scope="module")
def url(server_url: str, template: str) -> Iterator[str]:
    with fresh_database(server_url, template) as url:
        execute(url, "CREATE TABLE payment (key text PRIMARY KEY, amount integer)")
        yield url


@pytest.fixture(scope="module")
def durable(url: str) -> Iterator[Durable]:
    with pytest.MonkeyPatch.context() as patch, Durable(work, url=url) as durable:
        patch.setenv("STEPS_URL", url)
        yield durable


def test_plain_functions_and_coroutine_functions_are_steps_of_one_orchestration(durable: Durable, url: str) -> None:
    threads.clear()
    assert durable.start(buy, "one", 7).wait(50) == [14, 21]
    assert execute(url, "SELECT key, amount FROM payment WHERE key LIKE 'one/%'") == [("one/1.1", 7)]
    assert threads
    assert not {thread.name for thread in threads} & {threading.main_thread().name, "interlock durable"}


def test_the_same_again_changes_nothing_and_another_input_is_refused(durable: Durable) -> None:
    for _ in range(2):
        assert durable.start(buy, "same", 7).wait(50) == [14, 21]
    with pytest.raises(errors.OrchestrationConflict, match="'same'"):
        durable.start(buy, "same", 8)


def test_a_superseded_plain_activity_is_refused_by_the_fence(durable: Durable) -> None:
    assert durable.start(overtaken, "overtaken", 1).wait(50) == 3


def test_a_start_is_recorded_in_the_callers_transaction_or_not_at_all(durable: Durable, url: str) -> None:
    with psycopg.connect(url) as connection:
        durable.start(buy, "undone", 1, connection=connection)
        connection.rollback()
        handle = durable.start(buy, "kept", 1, connection=connection)
        with pytest.raises(errors.OrchestrationUnknown):
            handle.status()
    durable.begin("kept")
    assert handle.wait(50) == [2, 3]
    with pytest.raises(errors.OrchestrationUnknown):
        durable.status("undone")


def test_a_connection_that_needs_an_event_loop_is_refused_in_words(durable: Durable, url: str) -> None:
    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(url)

    connection = asyncio.run(connect())
    try:
        with pytest.raises(errors.ConnectionUnfit, match="needs an event loop"):
            durable.start(buy, "wrong", 1, connection=connection)
    finally:
        asyncio.run(connection.close())


def test_a_failure_keeps_its_code_and_is_cleaned_up(durable: Durable) -> None:
    handle = durable.start(buy, "failed", 13)
    with pytest.raises(OrchestrationFailed, match="unlucky") as failed:
        handle.wait(50)
    assert failed.value.code == "unlucky"
    assert durable.handle(give_back, "failed:cleanup").wait(50) == "gave 13 back"
    assert handle.status().state == "failed"


def test_an_orchestration_is_cancelled_in_the_callers_transaction(durable: Durable, url: str) -> None:
    first, second = (durable.start(hear, f"cancelled-{number}", 1) for number in (1, 2))
    first.cancel("enough")
    with psycopg.connect(url) as connection:
        durable.cancel(second.id, "too much", connection=connection)
        with pytest.raises(errors.OrchestrationUnknown):
            durable.cancel("unknown", connection=connection)
    for handle, reason in ((first, "enough"), (second, "too much")):
        with pytest.raises(OrchestrationCancelled, match=reason):
            handle.wait(50)


def test_events_status_list_and_history(durable: Durable) -> None:
    handle = durable.start(hear, "heard", 40)
    durable.send("heard", "more", 2)
    assert handle.wait(50) == 42
    assert (handle.status().state, handle.status().result) == ("completed", 42)
    assert [one.id for one in durable.list("hear")] == ["heard"]
    assert durable.history("heard")[-1].kind == "OrchestrationCompleted"
    with pytest.raises(TimeoutError):
        durable.start(hear, "unheard", 1).wait(0.01)


def test_threads_share_it(durable: Durable) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: durable.start(buy, f"shared-{number}", number).wait(50), range(14, 22)))
    assert results == [[2 * number, 3 * number] for number in range(14, 22)]


def test_running_activities_are_finished_when_the_block_ends(interlock_url: str) -> None:
    begun.clear()
    go_on.clear()

    def let_it_end() -> None:
        eventually(lambda: replica._thread is None)  # it is being closed
        go_on.set()

    with Durable(work, url=interlock_url) as replica:
        helper = threading.Thread(target=let_it_end)
        helper.start()
        replica.start(waited_for, "long", 5)
        assert begun.wait(50)
    helper.join()
    ended = "SELECT attempt FROM interlock.attempt", "SELECT count(*) FROM interlock_engine.worker_queue"
    assert [execute(interlock_url, query) for query in ended] == [[(1,)], [(0,)]]


def test_use_outside_the_block_is_refused(interlock_url: str) -> None:
    durable = Durable(work, url=interlock_url, concurrency=0)
    with pytest.raises(errors.ConfigurationError, match="not open"):
        durable.list()
    with durable:
        assert durable.list() == []
        assert durable.prune(3600) == 0
    with pytest.raises(errors.ConfigurationError, match="not open"):
        durable.list()


def test_a_failed_start_leaves_no_thread(database_url: str) -> None:
    before = set(threading.enumerate())
    with pytest.raises(errors.SchemaMissing), Durable(work, url=database_url):
        pass
    begun_by_it = [thread.name for thread in set(threading.enumerate()) - before]
    assert "interlock durable" not in begun_by_it
