"""Work for a thread: done once, or given up once, and the thread goes on."""

import asyncio
import threading
from contextlib import suppress

import pytest

from interlock.errors import ConnectionLost, LockNotAvailable
from interlock.stores.sqlite.jobs import ThreadJob, Worker, deliver

PATIENCE = 20.0


def job() -> ThreadJob[None, str]:
    return ThreadJob(lambda _: "done")


async def test_a_job_that_was_given_up_is_never_begun() -> None:
    given_up = job()
    with pytest.raises(LockNotAvailable):
        await given_up.answer(0.01, PATIENCE)
    assert not given_up.is_wanted
    assert given_up.take() is False


async def test_a_job_that_was_begun_is_not_given_up_and_its_outcome_is_unknown() -> None:
    begun = job()
    assert begun.take() is True
    with pytest.raises(ConnectionLost):
        await begun.answer(0.01, 0.01)
    assert begun.is_wanted


async def test_a_slow_answer_is_waited_for_once_it_was_begun() -> None:
    begun = job()
    begun.take()
    answer = asyncio.create_task(begun.answer(0.01, PATIENCE))
    await asyncio.sleep(0.05)
    deliver([(begun, "done", None)])
    assert await answer == "done"


async def test_a_cancelled_caller_gives_its_job_up() -> None:
    cancelled = job()
    answer = asyncio.create_task(cancelled.answer(PATIENCE, PATIENCE))
    await asyncio.sleep(0)
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert cancelled.take() is False


async def test_a_thread_that_was_stopped_is_begun_again_by_the_next_job() -> None:
    ended: list[None] = []
    threads: list[str] = []

    def serve(job: ThreadJob[None, str]) -> None:
        threads.append(str(threading.get_ident()))
        deliver([(job, job.work(None), None)])

    worker = Worker("a thread", serve, lambda: ended.append(None))
    for ends in range(3):
        jobs = [job() for _ in range(5)]
        for each in jobs:
            worker.submit(each)
        assert [await each.answer(PATIENCE, PATIENCE) for each in jobs] == ["done"] * 5
        thread = worker.stop()
        assert thread is not None
        await asyncio.to_thread(thread.join)
        assert len(ended) == ends + 1
        assert not worker.is_running
    assert len(threads) == 15


async def test_submitting_does_not_wait_for_an_ending_thread_and_the_job_is_run() -> None:
    """The last connection of a file writes to its disk when it is closed, which may take long."""
    ends, may_end = threading.Event(), threading.Event()

    def end() -> None:
        ends.set()
        may_end.wait(PATIENCE)

    worker: Worker[ThreadJob[None, str]] = Worker("a thread", lambda job: deliver([(job, job.work(None), None)]), end)
    first, second = job(), job()
    worker.submit(first)
    assert await first.answer(PATIENCE, PATIENCE) == "done"
    worker.stop()
    assert await asyncio.to_thread(ends.wait, PATIENCE)
    submitting = asyncio.create_task(asyncio.to_thread(worker.submit, second))
    try:
        await asyncio.wait_for(asyncio.shield(submitting), PATIENCE / 2)
    finally:
        may_end.set()
        await submitting
    assert await second.answer(PATIENCE, PATIENCE) == "done"
    thread = worker.stop()
    assert thread is not None
    await asyncio.to_thread(thread.join)
    assert not worker.is_running


async def test_results_for_an_ended_event_loop_are_dropped() -> None:
    orphan = await asyncio.to_thread(lambda: asyncio.run(_made()))
    deliver([(orphan, "done", None)])


async def _made() -> ThreadJob[None, str]:
    return job()


async def test_a_thread_that_cannot_be_started_is_tried_again_by_the_next_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many(thread: threading.Thread) -> None:
        monkeypatch.undo()
        raise RuntimeError("can't start new thread")

    served: list[ThreadJob[None, str]] = []
    worker = Worker("test-worker", served.append, lambda: None)
    monkeypatch.setattr(threading.Thread, "start", too_many)
    with pytest.raises(RuntimeError):
        worker.submit(job())
    assert worker.stop() is None
    later = job()
    worker.submit(later)
    thread = worker.stop()
    assert thread is not None
    thread.join(PATIENCE)
    assert served == [later]


async def test_a_thread_whose_start_was_interrupted_does_nothing_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next one there would be two, on one connection."""
    start = threading.Thread.start
    orphans: list[threading.Thread] = []

    def interrupted(thread: threading.Thread) -> None:
        monkeypatch.undo()
        start(thread)
        orphans.append(thread)
        raise KeyboardInterrupt

    served: list[ThreadJob[None, str]] = []
    worker = Worker("test-worker", served.append, lambda: None)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.submit(job())
    orphans[0].join(PATIENCE)
    assert not orphans[0].is_alive()
    later = job()
    worker.submit(later)
    thread = worker.stop()
    assert thread is not None
    thread.join(PATIENCE)
    assert served == [later]


async def test_the_job_of_an_interrupted_caller_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(changed: threading.Condition, n: int = 1) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    served: list[ThreadJob[None, str]] = []
    worker = Worker("test-worker", served.append, lambda: None)
    first = job()
    worker.submit(first)
    monkeypatch.setattr(threading.Condition, "notify", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.submit(job())
    thread = worker.stop()
    assert thread is not None
    thread.join(PATIENCE)
    assert served == [first]


@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
async def test_an_interrupt_during_a_submission_blocks_no_caller(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """These are written in Python: an interrupt may come behind what the first has done, or before the second's."""
    usual = getattr(threading.Condition, method)

    def interrupted(changed: threading.Condition, *args: object) -> object:
        if threading.current_thread() is threading.main_thread():
            if method == "__enter__":
                usual(changed)
            raise KeyboardInterrupt
        result: object = usual(changed, *args)
        return result

    worker: Worker[ThreadJob[None, str]] = Worker(
        "test-worker", lambda job: deliver([(job, job.work(None), None)]), lambda: None
    )
    first, later = job(), job()
    worker.submit(first)
    assert await first.answer(PATIENCE, PATIENCE) == "done"
    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(threading.Condition, method, interrupted)
        worker.submit(job())
    worker.submit(later)
    assert await later.answer(PATIENCE, PATIENCE) == "done"
    thread = worker.stop()
    assert thread is not None
    await asyncio.to_thread(thread.join)
