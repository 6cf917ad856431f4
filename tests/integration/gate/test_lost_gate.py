"""A lost gate, and its end: cancellation, callbacks, a database that does not answer."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest

from interlock import AsyncGate, Gate, Timing, errors
from support.gates import end_sessions_with, gate_name, is_held, waiters
from support.postgres import execute
from support.proxy import Cable, cable_to
from support.waiting import PATIENCE, eventually

QUICK = Timing(ttl=6, check_interval=0.1, poll=0.05)


def end_holder(url: str) -> None:
    execute(url, "SELECT pg_terminate_backend(lock_pid) FROM interlock.gate_run WHERE ended_at IS NULL")


async def until(look: Callable[[], bool]) -> None:
    """As `eventually`, for the event loop's thread."""
    async with asyncio.timeout(PATIENCE):
        while not look():  # noqa: ASYNC110 - a phase has no event
            await asyncio.sleep(0.01)


async def lost(url: str, gate: AsyncGate, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Enter, lose the lock, and wait in the body for the effect."""
    async with gate as passage:
        passage.on_lost(lambda _: meanwhile())
        await asyncio.to_thread(end_holder, url)
        await asyncio.Event().wait()


async def test_a_loss_and_a_callers_cancellation_are_a_cancellation(interlock_url: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(asyncio.CancelledError):
        await lost(interlock_url, AsyncGate("shop", url=interlock_url, timing=QUICK), task.cancel)
    assert task.uncancel() == 0


async def test_a_task_that_was_cancelled_before_still_gets_the_loss(interlock_url: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)
    with pytest.raises(errors.GateLost):
        await lost(interlock_url, AsyncGate("shop", url=interlock_url, timing=QUICK))
    assert task.uncancel() == 0


async def test_a_cancellation_at_the_end_of_the_block_is_not_swallowed(interlock_url: str) -> None:
    async def pass_through() -> None:
        async with AsyncGate("shop", url=interlock_url):
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(pass_through())
    await asyncio.to_thread(eventually, lambda: not is_held(interlock_url, "shop"))


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("hook", ["on_renewed", "on_lost"])
async def test_a_failing_callback_does_not_hide_the_loss_from_the_body(interlock_url: str, hook: str) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    async def migrate() -> None:
        async with AsyncGate("shop", url=interlock_url, timing=QUICK) as passage:
            getattr(passage, hook)(fail)
            beaten = asyncio.Event()
            passage.on_renewed(lambda _: beaten.set())
            await beaten.wait()
            await asyncio.to_thread(end_holder, interlock_url)
            await asyncio.Event().wait()

    with pytest.raises(errors.GateLost):
        await migrate()


async def test_a_migration_in_a_thread_keeps_the_gate_until_it_has_ended(interlock_url: str) -> None:
    running, go_on = threading.Event(), threading.Event()

    def migrate() -> None:
        running.set()
        go_on.wait()

    migrating = asyncio.create_task(AsyncGate("shop", url=interlock_url).run(migrate))
    await asyncio.to_thread(running.wait)
    migrating.cancel()
    with pytest.raises(errors.GateBusy):
        await AsyncGate("shop", url=interlock_url, policy="fail").enter()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await migrating
    assert not is_held(interlock_url, "shop")


async def test_a_gate_object_serves_one_passage_at_a_time(interlock_url: str) -> None:
    gate = AsyncGate("shop", url=interlock_url, policy="skip")
    async with gate as passage:
        with pytest.raises(errors.ConfigurationError, match="in use"):
            await gate.enter()
        assert is_held(interlock_url, "shop")
        passage.check()
    async with gate as passage:
        assert passage.needed


def test_without_an_event_loop_it_serves_one_passage_at_a_time_too(interlock_url: str) -> None:
    gate = Gate("shop", url=interlock_url)
    with gate as passage:
        with pytest.raises(errors.ConfigurationError, match="in use"), gate:
            pass
        passage.check()


@pytest.mark.exhaustive
async def test_a_database_that_does_not_answer_at_the_end_is_a_lost_gate(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        gate = AsyncGate("shop", url=url, timing=QUICK)
        await gate.enter()
        cable.cut()
        with pytest.raises(errors.GateLost):
            await gate.leave()


@pytest.mark.exhaustive
async def test_a_database_that_does_not_answer_during_the_check_is_a_lost_gate(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        answers = iter([lambda: None, cable.cut])  # called before the lock, and again with it

        def is_current() -> bool:
            next(answers)()
            return False

        with pytest.raises(errors.GateLost):
            await AsyncGate("shop", url=url, timing=QUICK, check=is_current).enter()


@pytest.mark.exhaustive
async def test_a_waiter_whose_database_does_not_answer_raises(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        async with AsyncGate("shop", url=interlock_url):
            waiting = asyncio.create_task(AsyncGate("shop", url=url, timing=QUICK).enter())
            await asyncio.to_thread(eventually, lambda: waiters(interlock_url, "shop"))
            cable.cut()
            with pytest.raises(errors.DatabaseUnreachable):
                await waiting


@pytest.mark.exhaustive
def test_without_an_event_loop_a_report_to_a_database_that_does_not_answer_raises(interlock_url: str) -> None:
    def migrate(url: str, cable: Cable) -> None:
        with Gate("shop", url=url, timing=QUICK) as passage:
            cable.cut()
            passage.report("half way")

    with cable_to(interlock_url) as (cable, url), pytest.raises(errors.GateLost):
        migrate(url, cable)


async def test_a_locked_row_does_not_stop_a_migration(interlock_url: str) -> None:
    with psycopg.connect(interlock_url) as other:
        async with AsyncGate("shop", url=interlock_url, timing=QUICK) as passage:
            other.execute("SELECT * FROM interlock.gate_run FOR UPDATE")
            await asyncio.gather(*(passage.report(f"step {number}") for number in range(10)))
            asyncio.get_running_loop().call_later(1, other.rollback)
    assert execute(interlock_url, "SELECT outcome FROM interlock.gate_run") == [("done",)]


async def test_a_run_that_was_taken_over_does_not_end_as_done(interlock_url: str) -> None:
    gate = AsyncGate("shop", url=interlock_url)
    await gate.enter()
    execute(interlock_url, "UPDATE interlock.gate_run SET ended_at = now(), outcome = 'abandoned'")
    with pytest.raises(errors.GateLost, match="took over the gate"):
        await gate.leave()


async def test_an_old_open_run_does_not_end_todays_sessions(interlock_url: str) -> None:
    gate = AsyncGate("shop", url=interlock_url, timing=QUICK)
    passage = await gate.enter()
    end_holder(interlock_url)
    await asyncio.to_thread(eventually, lambda: passage.lost)
    with pytest.raises(errors.GateLost):
        await gate.leave()
    execute(interlock_url, "UPDATE interlock.gate_run SET heartbeat_at = now() - interval '21 days'")
    with psycopg.connect(interlock_url) as today:
        async with AsyncGate("shop", url=interlock_url, timing=QUICK):
            today.execute("SELECT 1")


async def test_a_missing_session_can_be_protected(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url) as passage:
        await passage.protect(2**31 - 1)


async def test_a_run_without_a_version_keeps_the_recorded_version(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url, version=2):
        pass
    async with AsyncGate("shop", url=interlock_url):
        pass
    with pytest.raises(errors.SchemaTooNew):
        await AsyncGate("shop", url=interlock_url, version=1).enter()


async def test_a_role_that_does_not_exist_cannot_migrate(interlock_url: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="no role 'missing_role'"):
        await AsyncGate("shop", url=interlock_url, migration_role="missing_role").enter()
    assert not is_held(interlock_url, "shop")


async def test_an_ambiguous_name_is_refused(interlock_url: str) -> None:
    for app in ("a/b", ""):
        with pytest.raises(errors.ConfigurationError, match="part of a gate's name"):
            await AsyncGate(app, url=interlock_url).enter()


async def test_a_function_that_is_cancelled_before_it_has_a_thread_never_begins(interlock_url: str) -> None:
    busy, begun = threading.Event(), threading.Event()
    with ThreadPoolExecutor(max_workers=1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(busy.wait)
        gate = AsyncGate("shop", url=interlock_url)
        migrating = asyncio.create_task(gate.run(begun.set))
        await until(lambda: gate.phase == "migrating")
        migrating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await migrating
        busy.set()
    assert not begun.is_set()


async def test_a_loss_at_the_end_of_the_block_is_a_lost_gate_and_not_a_cancellation(interlock_url: str) -> None:
    async def pass_through() -> None:
        async with AsyncGate("shop", url=interlock_url, timing=QUICK):
            other.execute("SELECT * FROM interlock.gate_run FOR UPDATE")
            asyncio.get_running_loop().call_later(1, end_holder, interlock_url)

    with psycopg.connect(interlock_url) as other, pytest.raises(ExceptionGroup) as group:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pass_through())
    assert group.value.subgroup(errors.GateLost)


async def test_a_loss_before_the_migration_leaves_no_open_run(interlock_url: str) -> None:
    name = gate_name(interlock_url, "shop")
    asked: list[bool] = []

    def is_current() -> bool:
        asked.append(True)
        if len(asked) == 2:  # with the lock
            end_sessions_with(interlock_url, name.lock)
        return False

    with pytest.raises(errors.GateLost):
        await AsyncGate("shop", url=interlock_url, check=is_current).enter()
    assert execute(interlock_url, "SELECT * FROM interlock.gate_run") == []
    async with AsyncGate("shop", url=interlock_url, policy="fail") as passage:
        assert passage.needed


async def test_a_loss_of_the_records_keeps_the_lock_until_the_migration_has_stopped(interlock_url: str) -> None:
    held_while_stopping: list[bool] = []

    async def migrate() -> None:
        async with AsyncGate("shop", url=interlock_url, timing=QUICK) as passage:
            alive = gate_name(interlock_url, "shop").alive(passage.fence)
            try:
                await asyncio.to_thread(end_sessions_with, interlock_url, alive)
                await asyncio.Event().wait()
            finally:
                for _ in range(2):  # heartbeats go on
                    beaten = asyncio.Event()
                    passage.on_renewed(lambda _, beaten=beaten: beaten.set())  # type: ignore[misc]
                    await beaten.wait()
                held_while_stopping.append(is_held(interlock_url, "shop"))

    with pytest.raises(errors.GateLost):
        await migrate()
    assert held_while_stopping == [True]
    assert not is_held(interlock_url, "shop")


async def test_a_check_that_returns_behind_is_not_overruled_by_a_version(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url, version=1):
        pass
    async with AsyncGate("shop", url=interlock_url, version=1, check=lambda: False) as passage:
        assert passage.needed


async def test_a_waiter_survives_a_lock_on_interlocks_tables(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url):
        waiting = asyncio.create_task(AsyncGate("shop", url=interlock_url, timing=QUICK).enter())
        await asyncio.to_thread(eventually, lambda: waiters(interlock_url, "shop"))
        with psycopg.connect(interlock_url) as other:
            # Not in the event loop's thread: the waiter may be in the middle of a statement on that table.
            await asyncio.to_thread(other.execute, "LOCK TABLE interlock.gate_run")
            await asyncio.wait([waiting], timeout=1)
        assert not waiting.done()
        waiting.cancel()


async def test_a_step_that_has_happened_is_recorded_even_if_the_ledger_is_locked(interlock_url: str) -> None:
    with psycopg.connect(interlock_url) as other:

        def effect() -> str:
            other.execute("LOCK TABLE interlock.gate_step")
            threading.Timer(1, other.rollback).start()
            return "done"

        async with AsyncGate("shop", url=interlock_url) as passage:
            assert await passage.step("create index", effect) == "done"


def test_without_an_event_loop_a_finished_passage_raises(interlock_url: str) -> None:
    with Gate("shop", url=interlock_url) as passage:
        pass
    with pytest.raises(errors.ConfigurationError, match="closed"):
        passage.report("too late")


async def test_a_recorded_version_that_is_too_new_overrules_a_check_that_passes(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url, version=42, compatible_since=40):
        pass
    with pytest.raises(errors.SchemaTooNew):
        await AsyncGate("shop", url=interlock_url, version=39, check=lambda: True).enter()
    async with AsyncGate("shop", url=interlock_url, version=41, check=lambda: True) as passage:
        assert passage.reason == "newer"


@pytest.mark.parametrize("table", ["gate_run", "gate_witness"])
async def test_entering_waits_until_interlocks_tables_are_unlocked(interlock_url: str, table: str) -> None:
    with psycopg.connect(interlock_url) as other:
        other.execute(f"LOCK TABLE interlock.{table}")
        threading.Timer(1, other.rollback).start()
        async with AsyncGate("shop", url=interlock_url, version=1) as passage:
            assert passage.needed


@pytest.mark.exhaustive
async def test_clearing_up_ends_a_reconnecting_service_only_once(interlock_url: str) -> None:
    """The service uses the migration's role, and the predecessor is not known to be dead."""
    cuts: list[int] = []
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            with suppress(psycopg.OperationalError), psycopg.connect(interlock_url, autocommit=True) as connection:
                cuts.append(connection.info.backend_pid)
                while not ended.is_set():
                    connection.execute("SELECT pg_sleep(0.01)")

    predecessor = AsyncGate("shop", url=interlock_url, timing=QUICK)
    passage = await predecessor.enter()
    service = threading.Thread(target=serve)
    service.start()
    try:
        await asyncio.to_thread(eventually, lambda: cuts)
        end_holder(interlock_url)
        await asyncio.to_thread(eventually, lambda: passage.lost)
        async with AsyncGate("shop", url=interlock_url, timing=QUICK) as successor:
            assert successor.needed
    finally:
        ended.set()
        service.join()
    assert len(cuts) == 2
    with pytest.raises(errors.GateLost):
        await predecessor.leave()
