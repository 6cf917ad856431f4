"""Schedulers of two replicas in one process: only the leader fires, and the next leader continues from its record."""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_MISSED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_STOPPED
from celery import Celery

from interlock import Interlock
from interlock.bridge import LoopThread
from interlock.errors import SchemaMissing
from interlock.integrations.apscheduler import Led
from interlock.integrations.celery import HEADER, LedScheduler
from interlock.integrations.leadership import Leadership, LedTerm
from interlock.logs import event_of
from support.postgres import execute
from support.waiting import eventually

TAKE_AWAY = "SELECT token FROM interlock.break_v1(%s, true, false, 'a test', 'a test')"


class Scheduler(Led, BackgroundScheduler):  # type: ignore[misc]
    pass


class AsyncScheduler(Led, AsyncIOScheduler):  # type: ignore[misc]
    pass


class Replica:
    """An APScheduler and the number of runs of its job."""

    def __init__(self, url: str) -> None:
        self.locks = Interlock(url)
        self.scheduler = Scheduler(locks=self.locks, name="nightly")
        self.runs = 0
        self.ran = threading.Event()

    def job(self) -> None:
        self.runs += 1
        self.ran.set()

    def close(self) -> None:
        if self.scheduler.running:
            self.scheduler.shutdown()
        self.locks.close()


@pytest.fixture
def replicas(interlock_url: str) -> Iterator[list[Replica]]:
    made = [Replica(interlock_url) for _ in range(2)]
    yield made
    for each in made:
        each.close()


def test_one_scheduler_fires_and_the_other_continues_after_its_shutdown(replicas: list[Replica]) -> None:
    first, second = replicas
    for each in replicas:
        each.scheduler.add_job(each.job, "interval", seconds=0.1)
    first.scheduler.start()
    assert first.ran.wait(20)
    second.scheduler.start()
    assert second.scheduler.term is None
    first.ran.clear()
    assert first.ran.wait(20)
    assert second.runs == 0
    first.scheduler.shutdown()
    runs = first.runs
    assert second.ran.wait(20)
    assert first.runs == runs


def test_a_job_that_the_previous_leader_fired_is_not_fired_again(replicas: list[Replica]) -> None:
    """Both schedulers have the job in memory, to be run at one moment, however late."""
    first, second = replicas
    moment = datetime.now(UTC) + timedelta(seconds=0.5)
    for each in replicas:
        each.scheduler.add_job(each.job, "date", run_date=moment, misfire_grace_time=3600)
        each.scheduler.add_job(each.job, "interval", days=1, start_date=moment, misfire_grace_time=3600)
    first.scheduler.start()
    second.scheduler.start()
    eventually(lambda: first.runs == 2)
    first.scheduler.shutdown()
    eventually(lambda: second.scheduler.term is not None and len(second.scheduler.get_jobs()) == 1)
    [job] = second.scheduler.get_jobs()
    eventually(lambda: job.next_run_time == moment + timedelta(days=1))
    assert second.runs == 0


def test_a_job_that_no_leader_fired_is_fired_late(replicas: list[Replica]) -> None:
    """The job was due while there was no leader: APScheduler decides by its own settings."""
    first, second = replicas
    first.scheduler.add_job(first.job, "interval", seconds=0.1)
    first.scheduler.start()
    assert first.ran.wait(20)
    first.scheduler.shutdown()
    moment = datetime.now(UTC)
    second.scheduler.add_job(second.job, "date", run_date=moment, misfire_grace_time=3600)
    second.scheduler.add_job(second.job, "date", run_date=moment, misfire_grace_time=1, id="strict")
    missed: list[str] = []
    second.scheduler.add_listener(lambda event: missed.append(event.job_id), EVENT_JOB_MISSED)
    eventually(lambda: datetime.now(UTC) > moment + timedelta(seconds=1.2))
    second.scheduler.start()
    assert second.ran.wait(20)
    eventually(lambda: missed == ["strict"])
    assert second.runs == 1


def test_a_leader_that_has_lost_without_notification_fires_nothing(replicas: list[Replica], interlock_url: str) -> None:
    leader = replicas[0]
    leader.scheduler.start()
    eventually(lambda: leader.scheduler.term)
    [[token]] = execute(interlock_url, TAKE_AWAY, "nightly")
    assert leader.scheduler.term
    assert leader.scheduler.term.token == token, "it still trusts its term"
    leader.scheduler.add_job(leader.job, id="job")
    assert leader.scheduler._process_jobs() is None
    assert leader.runs == 0
    assert leader.scheduler.get_job("job")


def test_a_leader_suspended_during_the_record_that_loses_its_term_fires_nothing(
    replicas: list[Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = replicas
    remember, stood = LedTerm.remember, threading.Event()

    def stand_still(term: LedTerm, key: str, value: Any) -> None:
        remember(term, key, value)
        monkeypatch.setattr(LedTerm, "lost", property(lambda _: True))
        stood.set()

    monkeypatch.setattr(LedTerm, "remember", stand_still)
    first.scheduler.add_job(first.job, "date", run_date=datetime.now(UTC), misfire_grace_time=3600)
    first.scheduler.start()
    assert stood.wait(20)
    first.scheduler.shutdown()
    assert first.runs == 0


def test_a_job_that_becomes_due_during_the_record_is_fired_under_a_later_one(
    replicas: list[Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next leader, which continues from the record, would fire the job again."""
    [leader, _] = replicas
    remembered: list[float] = []
    due: list[datetime] = []
    fired_under: list[float] = []
    write = leader.scheduler._leadership.write

    def write_meanwhile(term: LedTerm, value: float) -> None:
        write(term, value)
        remembered.append(value)
        if not due:
            due.append(datetime.now(UTC))
            leader.scheduler.add_job(
                lambda: fired_under.append(remembered[-1]), "date", run_date=due[0], misfire_grace_time=3600
            )

    monkeypatch.setattr(leader.scheduler._leadership, "write", write_meanwhile)
    leader.scheduler.start()
    eventually(lambda: fired_under)
    assert remembered[0] < due[0].timestamp() <= fired_under[0]


def test_a_scheduler_that_is_shut_down_while_it_fires_still_fires_all_due_jobs(replicas: list[Replica]) -> None:
    """The next leader takes these jobs for fired."""
    [leader, _] = replicas
    shut_down = threading.Thread(target=leader.scheduler.shutdown)

    class ShutDownMeanwhile(ThreadPoolExecutor):  # type: ignore[misc]
        def submit_job(self, job: Any, run_times: Any) -> None:
            super().submit_job(job, run_times)
            if shut_down.ident is None:
                shut_down.start()
                eventually(lambda: leader.scheduler.state == STATE_STOPPED)

    leader.scheduler.add_executor(ShutDownMeanwhile())
    for _ in range(2):
        leader.scheduler.add_job(leader.job, "date", run_date=datetime.now(UTC), misfire_grace_time=3600)
    leader.scheduler.start()
    eventually(lambda: leader.runs == 2)
    shut_down.join(20)
    with pytest.raises(JobLookupError):
        leader.scheduler.remove_job("unknown")


async def test_a_scheduler_on_an_event_loop_can_be_led_too(interlock_url: str) -> None:
    ran = asyncio.Event()

    async def job() -> None:
        assert scheduler.term is not None
        ran.set()

    locks = Interlock(interlock_url)
    scheduler = AsyncScheduler(locks=locks)
    scheduler.add_job(job, "interval", seconds=0.1)
    scheduler.start()
    await asyncio.wait_for(ran.wait(), 20)
    scheduler.shutdown()
    await asyncio.to_thread(locks.close)


def test_closing_the_locks_under_a_scheduler_leaves_nothing_open(replicas: list[Replica], interlock_url: str) -> None:
    leader, other = replicas
    leader.scheduler.start()
    eventually(lambda: leader.scheduler.term)
    leader.locks.close()
    assert leader.scheduler.term is None
    other.scheduler.start()
    eventually(lambda: other.scheduler.term)
    other.close()
    ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    eventually(lambda: execute(interlock_url, ours) == [(0,)])


def test_an_unusable_database_is_an_error_at_the_start(database_url: str) -> None:
    locks = Interlock(database_url)
    scheduler = Scheduler(locks=locks)
    with pytest.raises(SchemaMissing):
        scheduler.start()
    assert not scheduler.running
    locks.close()


def standing(locks: Interlock) -> list[str | None]:
    """The candidates in the election."""
    tasks = asyncio.all_tasks(locks.loop_thread().loop)
    return [name for task in tasks if (name := getattr(task.get_coro(), "__qualname__", None)) == "Leadership._stand"]


def test_an_interrupt_during_the_start_leaves_no_candidacy(
    sync_locks: Interlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, main = Leadership._begin, threading.get_ident()

    async def begin_and_interrupt(*args: Any) -> None:
        await begin(*args)
        signal.pthread_kill(main, signal.SIGINT)

    monkeypatch.setattr(Leadership, "_begin", begin_and_interrupt)
    leadership = Leadership(sync_locks, "nightly", 15)
    with pytest.raises(KeyboardInterrupt):
        leadership.start()
    assert standing(sync_locks) == []


def test_a_stop_can_be_repeated_after_an_interrupt(sync_locks: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_interrupted(_: LoopThread, coroutine: Coroutine[Any, Any, Any]) -> None:
        monkeypatch.undo()
        coroutine.close()
        raise KeyboardInterrupt

    leadership = Leadership(sync_locks, "nightly", 15)
    leadership.start()
    monkeypatch.setattr(LoopThread, "run", be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        leadership.stop()
    leadership.stop()
    assert standing(sync_locks) == []


def test_a_candidate_whose_callback_fails_releases_the_term_and_tries_again(
    sync_locks: Interlock, caplog: pytest.LogCaptureFixture
) -> None:
    tokens: list[int] = []

    def fail_at_first() -> None:
        assert leadership.term is not None
        tokens.append(leadership.term.token)
        if len(tokens) == 1:
            raise LookupError("not here")

    leadership = Leadership(sync_locks, "nightly", 15, on_elected=fail_at_first)
    leadership.start()
    eventually(lambda: len(tokens) == 2)
    leadership.stop()
    assert tokens[0] < tokens[1]
    [failure] = [record for record in caplog.records if event_of(record) == "election.failed"]
    assert failure.exc_info
    assert failure.exc_info[0] is LookupError


class Beat:
    """A beat scheduler that the test ticks, and the tasks that it sent."""

    def __init__(self, url: str, **schedule: Any) -> None:
        self.app = Celery("shop", broker="memory://", set_as_current=False)
        self.app.conf.update(
            interlock_database_url=url,
            interlock_beat_ttl=5.0,
            beat_schedule={
                name: {"task": f"shop.{name}", "schedule": timedelta(seconds=every), "options": {"headers": {"own": 1}}}
                for name, every in schedule.items()
            },
        )
        self.scheduler: Any = LedScheduler(self.app)
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.scheduler.send_task = self._send

    def make_overdue(self, name: str) -> None:
        entry = self.scheduler.schedule[name]
        entry.last_run_at -= entry.schedule.run_every * 2

    def _send(self, task: str, *args: Any, headers: dict[str, Any], **options: Any) -> None:
        self.sent.append((task, headers))


@pytest.fixture
def beats(interlock_url: str) -> Iterator[list[Beat]]:
    made = [Beat(interlock_url, hourly=3600, daily=86400) for _ in range(2)]
    yield made
    for each in made:
        each.scheduler.close()


def lead(beat: Beat) -> None:
    eventually(lambda: beat.scheduler.tick() > 0 and beat.scheduler._led)


def test_one_beat_sends_with_its_token_and_the_other_continues_from_there(beats: list[Beat]) -> None:
    first, second = beats
    for beat in beats:
        beat.make_overdue("hourly")
    lead(first)
    token = first.scheduler._led.token
    assert [(task, headers["own"], headers[HEADER]) for task, headers in first.sent] == [("shop.hourly", 1, token)]
    assert second.scheduler.tick() == 0.0
    assert second.sent == []
    first.scheduler.close()
    lead(second)
    assert second.sent == [], "it goes by what the first one sent, not by its own last time"
    second.make_overdue("hourly")
    second.scheduler._heap = None
    eventually(lambda: second.scheduler.tick() > 0)
    [(task, headers)] = second.sent
    assert task == "shop.hourly"
    assert headers[HEADER] > token


def test_the_interval_of_an_entry_continues_under_the_next_leader(beats: list[Beat]) -> None:
    """A daily task is sent although no leader lives for a day."""
    first, second = beats
    lead(first)
    seen = first.scheduler.schedule["daily"].last_run_at
    first.scheduler.close()
    second.scheduler.schedule["daily"].last_run_at = seen + timedelta(hours=23)  # the time of its creation
    lead(second)
    assert abs(second.scheduler.schedule["daily"].last_run_at - seen) < timedelta(milliseconds=1)


def test_a_beat_that_has_lost_without_notification_sends_nothing(beats: list[Beat], interlock_url: str) -> None:
    first = beats[0]
    lead(first)
    execute(interlock_url, TAKE_AWAY, "celery beat")
    assert first.scheduler._leadership.term, "it still trusts its term"
    first.make_overdue("hourly")
    first.scheduler._heap = None
    assert first.scheduler.tick() == 0.0
    assert first.sent == []
    assert first.scheduler._led is None


def test_a_scheduler_that_is_only_read_opens_no_connection(database_url: str) -> None:
    beat = Beat(database_url, hourly=3600)
    lazy: Any = LedScheduler(beat.app, lazy=True)
    assert lazy.info == "    . lease -> celery beat"
    lazy.close()
    with pytest.raises(SchemaMissing):
        beat.scheduler.tick()
    beat.scheduler.close()
