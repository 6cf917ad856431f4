"""The gate as a library: which replica migrates, which goes on without, and the effect of a lost gate."""

import asyncio
import logging
import threading
from typing import Any

import psycopg
import pytest

from interlock import AsyncGate, Gate, Timing, errors
from interlock.gate import Verdict
from support.gates import gate_name, is_held, waiters
from support.postgres import execute
from support.waiting import eventually

QUICK = Timing(ttl=6, check_interval=0.1, poll=0.05)


def end_holder(url: str) -> None:
    execute(url, "SELECT pg_terminate_backend(lock_pid) FROM interlock.gate_run WHERE ended_at IS NULL")


def runs(url: str) -> list[tuple[Any, ...]]:
    return execute(url, "SELECT fence, outcome FROM interlock.gate_run ORDER BY gate, fence")


class Schema:
    """A schema with a check, which counts its checks and migrations."""

    def __init__(self) -> None:
        self.current = False
        self.asked = 0
        self.migrated = 0

    def is_current(self) -> bool:
        self.asked += 1
        return self.current

    async def migrate(self) -> None:
        self.migrated += 1
        self.current = True


async def test_on_an_empty_database_it_creates_its_tables_and_migrates(database_url: str) -> None:
    schema = Schema()
    assert await AsyncGate("shop", url=database_url, check=schema.is_current).run(schema.migrate)
    assert schema.migrated == 1
    assert runs(database_url) == [(1, "done")]


async def test_a_current_schema_is_passed_without_the_lock(interlock_url: str) -> None:
    with psycopg.connect(interlock_url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s, %s)", gate_name(interlock_url, "shop").lock)
        async with AsyncGate("shop", url=interlock_url, check=lambda: True, policy="fail") as passage:
            assert not passage.needed
            assert passage.reason == "current"


async def test_it_checks_again_once_it_holds_the_lock(interlock_url: str) -> None:
    answers = iter([False, True])
    async with AsyncGate("shop", url=interlock_url, check=lambda: next(answers)) as passage:
        assert not passage.needed
    assert not is_held(interlock_url, "shop")
    assert runs(interlock_url) == []


async def test_of_many_replicas_at_once_one_migrates_and_the_others_go_on(interlock_url: str) -> None:
    schema = Schema()
    gates = [AsyncGate("shop", url=interlock_url, check=schema.is_current, timing=QUICK) for _ in range(8)]
    migrated = await asyncio.gather(*(gate.run(schema.migrate) for gate in gates))
    assert sorted(migrated) == [False] * 7 + [True]
    assert schema.migrated == 1


async def test_two_applications_on_one_schema_do_not_wait_for_each_other(interlock_url: str) -> None:
    async with (
        AsyncGate("shop", url=interlock_url) as shop,
        AsyncGate("billing", url=interlock_url, policy="fail") as billing,
    ):
        assert shop.needed
        assert billing.needed


async def test_while_one_migrates_another_waits_skips_or_fails(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url) as first:
        async with AsyncGate("shop", url=interlock_url, policy="skip") as second:
            assert not second.needed
            assert second.reason == "busy"
        with pytest.raises(errors.GateBusy, match="is taken by"):
            await AsyncGate("shop", url=interlock_url, policy="fail").enter()
        with pytest.raises(errors.GateTimeout, match="is still taken by"):
            await AsyncGate("shop", url=interlock_url, timeout=0.1, timing=QUICK).enter()
        assert first.needed


async def test_a_waiter_goes_on_as_soon_as_the_migration_is_done_without_taking_the_lock(interlock_url: str) -> None:
    schema = Schema()
    waiter = AsyncGate("shop", url=interlock_url, check=schema.is_current, timing=QUICK)
    async with AsyncGate("shop", url=interlock_url):
        waiting = asyncio.create_task(waiter.enter())
        await asyncio.to_thread(eventually, lambda: waiters(interlock_url, "shop"))
        phases = [waiter.phase]
        schema.current = True
    passage = await waiting
    assert not passage.needed
    assert [*phases, waiter.phase] == ["waiting", "passed"]
    assert runs(interlock_url) == [(1, "done")]


async def test_each_run_has_a_higher_fence_than_the_one_before(interlock_url: str) -> None:
    fences = []
    for _ in range(3):
        async with AsyncGate("shop", url=interlock_url) as passage:
            fences.append(passage.fence)
    assert fences == [1, 2, 3]


async def test_a_failed_migration_is_recorded_and_opens_the_gate(interlock_url: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with AsyncGate("shop", url=interlock_url):
            raise ZeroDivisionError("secret")
    assert execute(interlock_url, "SELECT outcome, error FROM interlock.gate_run") == [("failed", "ZeroDivisionError")]
    assert not is_held(interlock_url, "shop")


async def test_the_body_is_cancelled_when_the_lock_is_lost(interlock_url: str) -> None:
    reasons: list[str] = []

    async def migrate() -> None:
        async with AsyncGate("shop", url=interlock_url, timing=QUICK) as passage:
            passage.on_lost(reasons.append)
            await asyncio.to_thread(end_holder, interlock_url)
            await asyncio.Event().wait()

    with pytest.raises(errors.GateLost, match="was lost while migrating"):
        await migrate()
    assert len(reasons) == 1
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_body_that_does_not_notice_the_loss_still_ends_in_gate_lost(interlock_url: str) -> None:
    async def migrate() -> None:
        async with AsyncGate("shop", url=interlock_url, timing=QUICK) as passage:
            end_holder(interlock_url)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert passage.lost

    with pytest.raises(errors.GateLost):
        await migrate()


async def test_a_callers_cancellation_stays_a_cancellation(interlock_url: str) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with AsyncGate("shop", url=interlock_url):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert execute(interlock_url, "SELECT outcome FROM interlock.gate_run") == [("failed",)]
    assert not is_held(interlock_url, "shop")


async def test_a_waiter_that_is_cancelled_leaves_nothing_behind(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url):
        waiting = asyncio.create_task(AsyncGate("shop", url=interlock_url, timing=QUICK).enter())
        await asyncio.to_thread(eventually, lambda: waiters(interlock_url, "shop"))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.to_thread(eventually, lambda: waiters(interlock_url, "shop") == 0)


def test_without_an_event_loop_the_check_runs_in_the_callers_thread(interlock_url: str) -> None:
    seen: list[threading.Thread] = []

    def check() -> bool:
        seen.append(threading.current_thread())
        return False

    with Gate("shop", url=interlock_url, check=check) as passage:
        assert passage.needed
        assert passage.fence == 1
        passage.report("half way")
        passage.check()
    assert seen == [threading.current_thread()] * 2
    assert runs(interlock_url) == [(1, "done")]


def test_without_an_event_loop_a_loss_calls_back_and_is_raised(interlock_url: str) -> None:
    def work() -> None:
        with Gate("shop", url=interlock_url, timing=QUICK) as passage:
            end_holder(interlock_url)
            eventually(lambda: passage.lost)
            with pytest.raises(errors.GateLost):
                passage.check()

    with pytest.raises(errors.GateLost):
        work()


def test_without_an_event_loop_a_plain_callable_runs_once(interlock_url: str) -> None:
    migrated: list[int] = []
    assert Gate("shop", url=interlock_url, version=3).run(lambda: migrated.append(1))
    assert not Gate("shop", url=interlock_url, version=3).run(lambda: migrated.append(1))
    assert migrated == [1]


@pytest.mark.parametrize(("mine", "verdict"), [(4, "current"), ("3.5", "newer"), (3, "newer"), (5, "behind")])
async def test_a_recorded_version_decides_the_verdict(interlock_url: str, mine: int | str, verdict: str) -> None:
    async with AsyncGate("shop", url=interlock_url, version=4, compatible_since=3):
        pass
    async with AsyncGate("shop", url=interlock_url, version=mine) as passage:
        assert passage.reason == verdict


async def test_an_old_replica_refuses_a_newer_schema_that_is_not_compatible(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url, version=4, compatible_since=3):
        pass
    with pytest.raises(errors.SchemaTooNew, match="migrated to version 4, and version 2 cannot work with it"):
        await AsyncGate("shop", url=interlock_url, version=2).enter()
    assert not is_held(interlock_url, "shop")


async def test_a_check_can_return_newer(interlock_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with AsyncGate("shop", url=interlock_url, check=lambda: Verdict.NEWER) as passage:
            assert passage.reason == "newer"
    assert [record.levelname for record in caplog.records if vars(record)["event"] == "gate.passed_by"] == ["WARNING"]
    with pytest.raises(errors.SchemaTooNew):
        await AsyncGate("shop", url=interlock_url, check=lambda: Verdict.TOO_NEW).enter()


async def test_the_gates_name_does_not_change_when_the_schema_of_the_role_appears(database_url: str) -> None:
    execute(database_url, "CREATE ROLE interlock_twin SUPERUSER LOGIN PASSWORD 'x'")
    try:
        url = database_url.replace(database_url.split("//")[1].split("@")[0], "interlock_twin:x")
        async with AsyncGate("shop", url=url, own_schema="interlock_twin") as passage:
            first = passage.gate
        async with AsyncGate("shop", url=url, own_schema="interlock_twin") as passage:
            assert passage.gate == first
            assert passage.fence == 2
    finally:
        execute(database_url, "DROP OWNED BY interlock_twin CASCADE")
        execute(database_url, "DROP ROLE interlock_twin")


async def test_a_session_that_was_opened_before_the_gate_is_ended_if_it_was_protected(interlock_url: str) -> None:
    with psycopg.connect(interlock_url) as earlier, psycopg.connect(interlock_url) as bystander:
        gate = AsyncGate("shop", url=interlock_url, timing=QUICK)
        passage = await gate.enter()
        await passage.protect(earlier.info.backend_pid)
        end_holder(interlock_url)
        await asyncio.to_thread(eventually, lambda: passage.lost)
        async with AsyncGate("shop", url=interlock_url, timing=QUICK):
            with pytest.raises(psycopg.OperationalError):
                earlier.execute("SELECT 1")
            bystander.execute("SELECT 1")
        with pytest.raises(errors.GateLost):
            await gate.leave()
    assert runs(interlock_url) == [(1, "abandoned"), (2, "done")]


@pytest.mark.exhaustive
async def test_a_predecessors_session_that_may_not_be_ended_is_not_overlapped_with(interlock_url: str) -> None:
    """The migration logs in as a role whose sessions the gate's own role may not end."""
    execute(interlock_url, "CREATE ROLE powerless LOGIN PASSWORD 'x'")
    try:
        execute(interlock_url, "GRANT USAGE ON SCHEMA interlock TO powerless")
        execute(interlock_url, "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA interlock TO powerless")
        superuser = interlock_url.split("//")[1].split(":")[0]
        url = interlock_url.replace(interlock_url.split("//")[1].split("@")[0], "powerless:x")
        gate = AsyncGate("shop", url=url, timing=QUICK, migration_role=superuser)
        passage = await gate.enter()
        with psycopg.connect(interlock_url, autocommit=True) as migration:
            end_holder(interlock_url)
            await asyncio.to_thread(eventually, lambda: passage.lost)
            with pytest.raises(errors.PredecessorAlive, match="pg_signal_backend") as refusal:
                await AsyncGate("shop", url=url, timing=QUICK, migration_role=superuser).enter()
            assert migration.info.backend_pid in refusal.value.pids
            migration.execute("SELECT 1")
        with pytest.raises(errors.GateLost):
            await gate.leave()
    finally:
        execute(interlock_url, "DROP OWNED BY powerless CASCADE")
        execute(interlock_url, "DROP ROLE powerless")


async def test_a_replica_at_the_recorded_version_goes_on_while_another_holds_the_lock(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url, version=4):
        pass
    async with (
        AsyncGate("shop", url=interlock_url) as migrating,
        AsyncGate("shop", url=interlock_url, version=4, policy="fail") as passage,
    ):
        assert migrating.needed
        assert passage.reason == "current"


async def test_a_misspelt_option_is_refused(interlock_url: str) -> None:
    with pytest.raises(TypeError, match="no option chekc"):
        AsyncGate("shop", url=interlock_url, chekc=lambda: True)  # type: ignore[call-arg]


async def test_a_waiter_can_report_its_wait(interlock_url: str) -> None:
    said = asyncio.Queue[str]()
    async with AsyncGate("shop", url=interlock_url) as passage:
        await passage.report("adding columns")
        waiting = asyncio.create_task(AsyncGate("shop", url=interlock_url, on_wait=said.put_nowait).enter())
        sentence = await said.get()
        waiting.cancel()
    assert sentence.startswith(f"Waiting at the gate {passage.gate}, which is taken by ")
    assert "at 'adding columns'" in sentence
