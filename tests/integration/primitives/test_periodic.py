"""Periodic singletons: one replica at a time, by the database's clock; no tick is lost when a replica dies."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from interlock import AsyncGrant, AsyncInterlock, Grant, Interlock, errors
from interlock.coordination.primitives.periodic import AsyncPeriodic
from support.lease_engine import queue, take_away, until
from support.ports import closed_port
from support.postgres import execute
from support.proxy import cable_to
from support.sql_leases import set_clock, step_clock
from support.waiting import eventually

PROGRESS = "SELECT (value ->> 'tick')::float, (value ->> 'finished')::boolean FROM interlock.record"
HOUR = 3600
SET = datetime(2031, 1, 1, tzinfo=UTC)
"""The start of the clock that `set_clock` sets."""


class Sweep:
    """A periodic function that records its ticks, and can be made to block or to fail."""

    def __init__(self, locks: AsyncInterlock, when: Any = HOUR, **settings: Any) -> None:
        self.ticks: list[datetime | None] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.then: Callable[[], object] = lambda: None
        self.periodic: AsyncPeriodic = locks.every(when, "sweep", **settings)(self.run)

    async def run(self, grant: AsyncGrant) -> None:
        grant.check()
        self.ticks.append(self.periodic.tick)
        self.begun.set()
        await self.go.wait()
        self.then()

    async def run_once(self) -> float:
        """Run what is due once, without the sleep that follows. The database's clock may have been moved."""
        self.periodic._clock_offset = None
        return await self.periodic._run_once()

    def hours(self) -> list[int]:
        """Returns the ticks in hours since the first."""
        ticks = [tick for tick in self.ticks if tick]
        return [round((tick - ticks[0]).total_seconds() / HOUR) for tick in ticks]

    @staticmethod
    def hours_of(ticks: "list[datetime | None]") -> list[int]:
        """Returns the ticks in hours of the clock that is set."""
        return [round((tick - SET).total_seconds() / HOUR) for tick in ticks if tick]


def progress(url: str) -> tuple[float, bool] | None:
    rows = execute(url, PROGRESS)
    return (rows[0][0], rows[0][1]) if rows else None


async def test_it_begins_with_the_next_tick_and_each_is_run_by_one(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    sweeps = [Sweep(locks), Sweep(others)]
    for sweep in sweeps:
        assert 0 < await sweep.run_once() <= HOUR
    assert sweeps[0].ticks == sweeps[1].ticks == []
    for hour in range(1, 4):
        step_clock(interlock_url, hour * HOUR)
        await asyncio.gather(*(sweep.run_once() for sweep in sweeps))
        await asyncio.gather(*(sweep.run_once() for sweep in sweeps))
    assert len(sweeps[0].ticks + sweeps[1].ticks) == 3
    assert len(set(sweeps[0].ticks + sweeps[1].ticks)) == 3
    seen = progress(interlock_url)
    assert seen is not None
    assert seen[1]


@pytest.mark.parametrize(("missed", "hours"), [("once", [0]), (3, [0, 1, 2]), (10, [0, 1, 2, 3, 4])])
async def test_missed_ticks(locks: AsyncInterlock, interlock_url: str, missed: Any, hours: list[int]) -> None:
    sweep = Sweep(locks, missed=missed)
    await sweep.run_once()
    step_clock(interlock_url, 5 * HOUR)
    await sweep.run_once()
    assert sweep.hours() == hours
    assert sweep.ticks == sorted(filter(None, sweep.ticks))
    seen = progress(interlock_url)
    assert seen is not None
    newest = sweep.ticks[-1]
    assert newest is not None
    assert seen == (newest.timestamp(), True)


async def test_missed_ticks_are_skipped(locks: AsyncInterlock, interlock_url: str) -> None:
    """A tick that no replica began in the first half of the interval is not run."""
    day = 86400
    sweep = Sweep(locks, day, missed="skip")
    await sweep.run_once()
    [[into]] = execute(interlock_url, "SELECT mod(extract(epoch FROM clock_timestamp())::numeric, 86400)::float")
    step_clock(interlock_url, 3 * day - into + 0.75 * day)
    await sweep.run_once()
    assert sweep.ticks == []
    step_clock(interlock_url, 4 * day - into + 60)
    await sweep.run_once()
    assert len(sweep.ticks) == 1


async def test_a_tick_that_was_begun_and_not_finished_is_taken_over(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    first, second = Sweep(locks), Sweep(others)
    await first.run_once()
    step_clock(interlock_url, HOUR)
    first.go.clear()
    running = asyncio.create_task(first.run_once())
    await first.begun.wait()
    waiting = asyncio.create_task(second.run_once())
    await until(lambda: queue(interlock_url, "sweep"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await waiting
    assert first.ticks == second.ticks
    seen = progress(interlock_url)
    assert seen is not None
    assert seen[1]


async def test_a_replica_that_lost_the_lease_does_not_record_the_end(locks: AsyncInterlock, interlock_url: str) -> None:
    sweep = Sweep(locks)
    await sweep.run_once()
    step_clock(interlock_url, HOUR)
    sweep.then = lambda: take_away(interlock_url, "sweep")
    with pytest.raises(errors.LeaseLost):
        await sweep.run_once()
    seen = progress(interlock_url)
    assert seen is not None
    assert not seen[1]


async def test_it_goes_on_after_the_clock_was_ahead(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One replica finds the record that is ahead without the lease, because it has the time already."""
    first, second = Sweep(locks), Sweep(others)
    set_clock(interlock_url, 0.5 * HOUR)
    await second.run_once()
    set_clock(interlock_url, 24.5 * HOUR)
    await first.run_once()
    set_clock(interlock_url, 0.5 * HOUR)
    await second.periodic._run_once()
    assert Sweep.hours_of(second.ticks) == [0]
    for hour in (0, 1, 2):
        set_clock(interlock_url, (hour + 0.5) * HOUR)
        await asyncio.gather(first.run_once(), second.run_once())
    assert sorted(Sweep.hours_of(first.ticks + second.ticks)) == [0, 1, 2, 24]
    assert caplog.text.count("periodic.clock_was_ahead") == 1


async def test_a_run_that_was_begun_while_the_clock_was_ahead_is_taken_over(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    first, second = Sweep(locks), Sweep(others, missed="skip")
    set_clock(interlock_url, 0)
    await first.run_once()
    set_clock(interlock_url, 24 * HOUR)
    first.go.clear()
    running = asyncio.create_task(first.run_once())
    await first.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    set_clock(interlock_url, 0.75 * HOUR)
    await second.run_once()
    assert Sweep.hours_of(second.ticks) == [0]
    set_clock(interlock_url, HOUR)
    await second.run_once()
    assert Sweep.hours_of(second.ticks) == [0, 1]


async def test_missed_ticks_are_skipped_also_after_the_clock_was_ahead(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    sweep = Sweep(locks, missed="skip")
    for hour in (0, 24, 0.75, 1, 1.75):
        set_clock(interlock_url, hour * HOUR)
        await sweep.run_once()
    assert Sweep.hours_of(sweep.ticks) == [24, 1]


async def test_a_tick_that_was_run_by_a_clock_a_little_ahead_is_not_run_again(
    locks: AsyncInterlock, interlock_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = Sweep(locks)
    for hour in (0.5, 1, 0.75, 1, 2):
        set_clock(interlock_url, hour * HOUR)
        await sweep.run_once()
    assert Sweep.hours_of(sweep.ticks) == [1, 2]
    assert "periodic.clock_was_ahead" not in caplog.text


async def test_a_failure_is_logged_and_the_next_tick_is_run(
    locks: AsyncInterlock, interlock_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = Sweep(locks)
    await sweep.run_once()
    sweep.then = lambda: 1 // 0
    for hour in (1, 2):
        step_clock(interlock_url, hour * HOUR)
        await sweep.run_once()
    assert sweep.hours() == [0, 1]
    assert "periodic.failed" in caplog.text
    seen = progress(interlock_url)
    assert seen is not None
    assert seen[1]


async def test_a_run_that_finds_no_database_is_logged_in_one_line(
    locks: AsyncInterlock, interlock_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise errors.DatabaseUnreachable("No database answers.")

    sweep = Sweep(locks)
    await sweep.run_once()
    sweep.then = fail
    step_clock(interlock_url, HOUR)
    await sweep.run_once()

    [failed] = [record for record in caplog.records if record.message.startswith("periodic.failed")]
    assert failed.message.endswith('why="No database answers."')
    assert failed.exc_info is None


async def test_guarded_by_its_grant(locks: AsyncInterlock, interlock_url: str) -> None:
    connection = await psycopg.AsyncConnection.connect(interlock_url)
    guarded = asyncio.Event()

    @locks.every("100ms")
    async def sweep(grant: AsyncGrant) -> None:
        async with connection.transaction():
            await grant.guard(connection)
        guarded.set()

    async with connection, sweep:
        await guarded.wait()
    assert sweep.name == "test_guarded_by_its_grant.<locals>.sweep"
    assert sweep.tick is None


async def test_it_runs_while_it_is_entered_and_survives_a_lost_database(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interlock.coordination.primitives import periodic

    monkeypatch.setattr(periodic, "_RETRY_AFTER", 0.1)
    ran = asyncio.Semaphore(0)

    @locks.every("100ms", "sweep")
    async def sweep(grant: AsyncGrant) -> None:
        ran.release()

    async with sweep:
        await ran.acquire()
        for _ in range(3):
            execute(
                interlock_url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'interlock %'",
            )
            await ran.acquire()
    assert await locks.lease("sweep").holders() == []


async def test_a_database_that_was_never_reached_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    locks = AsyncInterlock("postgresql://user@127.0.0.1:1/nothing")

    @locks.every("1s", "sweep")
    async def sweep(grant: AsyncGrant) -> None: ...

    with pytest.raises(errors.DatabaseUnreachable):
        await sweep.run()
    await locks.close()


async def test_a_block_waits_for_a_database_that_is_unreachable_at_first(
    interlock_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As when a replica starts while its database restarts: after an error no one would start the work again."""
    ran, ran_in_thread = asyncio.Event(), threading.Event()
    with closed_port() as port, cable_to(interlock_url) as (cable, url):
        cable.lead_to(port)
        locks, sync_locks = AsyncInterlock(url), Interlock(url)

        @locks.every("1s", "sweep")
        async def sweep(grant: AsyncGrant) -> None:
            ran.set()

        @sync_locks.every("1s", "other sweep")
        def other_sweep(grant: Grant) -> None:
            ran_in_thread.set()

        async with sweep:
            with other_sweep:
                await until(lambda: all(f"lease={name}" in caplog.text for name in ("sweep", '"other sweep"')))
                assert "periodic.ended" not in caplog.text
                cable.lead_to(urlsplit(interlock_url).port or 0)
                await ran.wait()
                assert await asyncio.to_thread(ran_in_thread.wait, 50)
        await locks.close()
        sync_locks.close()


@pytest.mark.exhaustive
async def test_a_database_that_is_lost_between_the_opening_and_the_first_run_is_waited_for(
    interlock_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with cable_to(interlock_url) as (cable, url):
        async with AsyncInterlock(url, request_timeout=1) as locks:
            sweep = Sweep(locks, 0.1)
            cable.cut()
            async with sweep.periodic:
                await until(lambda: "periodic.database_away" in caplog.text)
                cable.restore()
                await sweep.begun.wait()


async def test_the_error_that_ends_it_is_logged_at_once_and_raised_at_the_end(
    locks: AsyncInterlock, sync_locks: Interlock, interlock_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await locks.open()
    execute(interlock_url, "DROP FUNCTION interlock.held_v1(text)")

    @locks.every("1s", "sweep")
    async def sweep(grant: AsyncGrant) -> None: ...

    @sync_locks.every("1s", "other sweep")
    def other_sweep(grant: Grant) -> None: ...

    def in_a_thread() -> None:
        with pytest.raises(errors.StatementFailed), other_sweep:
            eventually(lambda: caplog.text.count("periodic.ended") == 2)

    async def enter() -> None:
        async with sweep:
            await until(lambda: "periodic.ended" in caplog.text)

    with pytest.raises(errors.StatementFailed):
        await enter()
    await asyncio.to_thread(in_a_thread)


async def test_bad_input(locks: AsyncInterlock, sync_locks: Interlock) -> None:
    def plain(grant: object) -> None: ...

    async def coroutine(grant: object) -> None: ...

    with pytest.raises(errors.ConfigurationError, match="coroutine functions"):
        locks.every("5m")(plain)  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigurationError, match="plain functions"):
        sync_locks.every("5m")(coroutine)
    with pytest.raises(errors.ConfigurationError, match="neither an interval"):
        locks.every("now and then")
    with pytest.raises(errors.ConfigurationError, match="missed="):
        locks.every("5m", missed=0)
    with pytest.raises(errors.ConfigurationError, match="marks Interlock's own"):
        locks.every("5m", "a##b")(coroutine)


def test_in_a_thread_of_its_own(sync_locks: Interlock, interlock_url: str) -> None:
    ran = threading.Semaphore(0)
    threads: set[threading.Thread] = set()

    @sync_locks.every("100ms", "sweep")
    def sweep(grant: Grant) -> None:
        grant.check()
        threads.add(threading.current_thread())
        assert sweep.tick is not None
        ran.release()

    for _ in range(2):
        with sweep:
            for _ in range(2):
                assert ran.acquire(timeout=20)
    assert len(threads) == 2
    assert threading.current_thread() not in threads
    assert sync_locks.lease("sweep").holders() == []


def test_a_run_in_a_thread_is_waited_for_before_the_lease_is_released(
    sync_locks: Interlock, interlock_url: str
) -> None:
    begun, go = threading.Event(), threading.Event()
    held: list[int] = []

    @sync_locks.every("100ms", "sweep")
    def sweep(grant: Grant) -> None:
        begun.set()
        assert go.wait(timeout=20)
        held.append(len(execute(interlock_url, "SELECT 1 FROM interlock.held_v1('sweep')")))

    def leave() -> None:
        sweep.__exit__()

    sweep.__enter__()
    assert begun.wait(timeout=20)
    leaving = threading.Thread(target=leave)
    leaving.start()
    leaving.join(timeout=0.3)
    assert leaving.is_alive()
    go.set()
    leaving.join()
    assert held == [1]
    assert sync_locks.lease("sweep").holders() == []


def test_an_interrupt_while_the_block_is_entered_leaves_nothing_running(
    sync_locks: Interlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, ran = threading.Thread.start, threading.Event()

    @sync_locks.every("100ms", "sweep")
    def sweep(grant: Grant) -> None:
        ran.set()

    def start_and_be_interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "interlock every sweep":
            assert ran.wait(50)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep.__enter__()
    eventually(lambda: "interlock every sweep" not in [thread.name for thread in threading.enumerate()])
    assert sync_locks.lease("sweep").holders() == []


def test_in_the_calling_thread(sync_locks: Interlock) -> None:
    class Enough(BaseException):
        pass

    @sync_locks.every("100ms", "sweep")
    def sweep(grant: Grant) -> None:
        raise Enough

    with pytest.raises(Enough):
        sweep.run()
    assert sync_locks.lease("sweep").holders() == []
