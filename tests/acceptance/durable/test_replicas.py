"""Two replicas share orchestrations of three steps of a second each, and one of them fails in the middle."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest

from interlock.durable.replica import AsyncDurable, AsyncOrchestrationHandle
from interlock.embedded import Cluster
from interlock.schema import whole_schema
from support.durable_steps import TABLES, three, work
from support.durable_worker import Worker, workers
from support.postgres import execute, running_cluster
from support.waiting import eventually

COUNT = 20
STEPS = [1, 2, 3]
LONGEST_LOCK = 5.0
"""Seconds. The remaining time of the fifteen seconds is for work: 60 steps of a second, 8 at a time."""


@pytest.fixture
def steps_url(interlock_url: str) -> str:
    execute(interlock_url, TABLES)
    return interlock_url


@pytest.fixture
async def asking(steps_url: str) -> AsyncIterator[AsyncDurable]:
    """A process that only asks for work."""
    async with AsyncDurable(work, url=steps_url, concurrency=0) as durable:
        yield durable


async def begin(durable: AsyncDurable, count: int = COUNT) -> list[AsyncOrchestrationHandle[list[int]]]:
    return [await durable.start(three, f"three-{number}", 1.0) for number in range(count)]


async def finished(handles: list[AsyncOrchestrationHandle[list[int]]], within: float = 45) -> list[list[int]]:
    return list(await asyncio.gather(*(handle.wait(within) for handle in handles)))


def times_written(url: str) -> list[tuple[int, int]]:
    """The number of steps for each number of times that a step was written."""
    counted = "SELECT count(*) AS times FROM written GROUP BY key"
    rows = execute(url, f"SELECT times, count(*) FROM ({counted}) AS counted GROUP BY times ORDER BY times")
    return [(times, steps) for times, steps in rows]


def times_begun(url: str) -> int:
    return int(execute(url, "SELECT count(*) FROM begun")[0][0])


def busy_pids(url: str) -> set[int]:
    """The workers that have begun a step and not yet written it."""
    open_steps = "SELECT pid FROM working b WHERE NOT EXISTS (SELECT FROM written w WHERE w.key = b.key)"
    return {pid for (pid,) in execute(url, open_steps)}


async def until_both_are_busy(url: str, team: list[Worker]) -> None:
    pids = {worker.process.pid for worker in team}
    await asyncio.to_thread(eventually, lambda: pids <= busy_pids(url) and len(times_written(url)) > 0)


async def stop_in_the_middle(url: str, worker: Worker) -> None:
    """Stop a worker inside a step.

    A signal takes time, so a worker that has written meanwhile goes on to its next step.
    """

    def stopped() -> bool:
        worker.send(SIGSTOP)
        if worker.process.pid in busy_pids(url):
            return True
        worker.send(SIGCONT)
        return False

    await asyncio.to_thread(eventually, stopped)


def seconds_locked(url: str) -> list[float]:
    """The seconds until each lock of the engine expires without a renewal. The locks use this machine's clock."""
    tables = ("worker_queue", "orchestrator_queue", "instance_locks")
    locks = " UNION ALL ".join(f"SELECT locked_until, lock_token FROM interlock_engine.{table}" for table in tables)
    found = execute(url, f"SELECT locked_until FROM ({locks}) AS locks WHERE lock_token IS NOT NULL")
    return [until / 1000 - time.time() for (until,) in found]


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("count", [8, COUNT])
async def test_the_work_of_a_replica_that_was_killed_is_finished_by_the_other(
    steps_url: str, asking: AsyncDurable, record_property: Callable[[str, object], None], count: int
) -> None:
    """The locks of the killed replica expire within five seconds, as they themselves show; the rest is work."""
    with workers(steps_url, 2) as team:
        handles = await begin(asking, count)
        await until_both_are_busy(steps_url, team)
        await stop_in_the_middle(steps_url, team[0])  # killed between two steps, it would leave none to repeat
        killed = "SELECT extract(epoch FROM min(at) FILTER (WHERE attempt > 1) - %s), extract(epoch FROM max(at) - %s)"
        [[killed_at]] = execute(steps_url, "SELECT clock_timestamp()")
        team[0].kill()
        left = seconds_locked(steps_url)
        assert left
        assert max(left) <= LONGEST_LOCK
        assert await finished(handles, within=50) == [STEPS] * count
    [[resumed, ended]] = execute(steps_url, f"{killed} FROM begun", killed_at, killed_at)
    record_property(
        "figure",
        f"durable: {count} of {count} finished after a replica was killed: its locks lasted {max(left):.1f} s more, "
        f"its steps were begun again after {resumed:.1f} s, the last step was begun after {ended:.1f} s",
    )
    assert times_written(steps_url) == [(1, 3 * count)]
    assert any(attempt > 1 for (attempt,) in execute(steps_url, "SELECT attempt FROM written"))


@pytest.mark.exhaustive
async def test_a_replica_that_was_stopped_and_goes_on_writes_nothing_over_its_successor(
    steps_url: str, asking: AsyncDurable
) -> None:
    with workers(steps_url, 2) as team:
        handles = await begin(asking)
        await until_both_are_busy(steps_url, team)
        await stop_in_the_middle(steps_url, team[0])
        assert await finished(handles) == [STEPS] * COUNT
        team[0].send(SIGCONT)
        team[0].send(SIGTERM)  # it goes on with what it was at, and then ends
        assert await asyncio.to_thread(team[0].process.wait, 30) == 0
        assert times_written(steps_url) == [(1, 3 * COUNT)]
        assert "superseded" in team[0].complaints()


async def test_nothing_runs_twice_when_a_replica_is_told_to_end(steps_url: str, asking: AsyncDurable) -> None:
    with workers(steps_url, 2) as team:
        handles = await begin(asking, 8)
        await until_both_are_busy(steps_url, team)
        team[0].send(SIGTERM)
        assert await asyncio.to_thread(team[0].process.wait, 30) == 0
        assert await finished(handles) == [STEPS] * 8
    assert times_written(steps_url) == [(1, 24)]
    assert times_begun(steps_url) == 24


async def test_a_recorded_orchestration_is_started_although_its_process_died_after_the_commit(
    steps_url: str, asking: AsyncDurable
) -> None:
    recorder = Worker(steps_url, "support.durable_steps", "support.durable_recorder")
    try:
        assert recorder.process.wait(60) == -SIGKILL, recorder.complaints()
    finally:
        recorder.end()
    assert (await asking.status("recorded")).state == "recorded"
    with workers(steps_url, 1):
        assert await asking.handle(three, "recorded").wait(50) == STEPS
    assert times_written(steps_url) == [(1, 3)]


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        execute(cluster.url(tcp=True), whole_schema("interlock"))
        execute(cluster.url(tcp=True), TABLES)
        yield cluster


@pytest.mark.exhaustive
@pytest.mark.timeout(150)
async def test_all_work_is_finished_after_an_outage_of_the_database_of_half_a_minute(own_cluster: Cluster) -> None:
    url = own_cluster.url(tcp=True)
    os.environ["STEPS_URL"] = url
    with workers(url, 2) as team:
        async with AsyncDurable(work, url=url, concurrency=0) as asking:
            handles = await begin(asking)
            await until_both_are_busy(url, team)
            await asyncio.to_thread(own_cluster.stop, "immediate")
            await asyncio.sleep(30)  # that is the case: nothing to wait for
            await asyncio.to_thread(own_cluster.start)
            assert await finished(handles, within=60) == [STEPS] * COUNT
            assert [worker.process.poll() for worker in team] == [None, None]
    assert times_written(url) == [(1, 3 * COUNT)]
