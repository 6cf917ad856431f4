"""Leases for threads, without an event loop."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interlock import Interlock, Lease, errors
from interlock.bridge import LoopThread, Request
from interlock.bridge.calls import RequestCall
from interlock.coordination.events import Lost
from interlock.coordination.lease.grant import AsyncGrant
from support.lease_engine import count_calls, holder, queue, sessions, take_away
from support.postgres import execute
from support.waiting import eventually


def brisk(locks: Interlock) -> Lease:
    """A lease that is renewed, and so notices a loss, many times a second."""
    return locks.lease("feeds", ttl=30, renew_every=0.05)


def in_a_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return thread


def test_only_one_holder_at_a_time(sync_locks: Interlock, interlock_url: str) -> None:
    lease = sync_locks.lease("feeds", metadata={"job": 1})
    assert (lease.name, lease.ttl) == ("feeds", 30)
    with lease as grant:
        assert holder(interlock_url) == grant.grant_id
        assert (grant.name, grant.ttl, grant.schema, grant.lost) == ("feeds", 30, "interlock", False)
        assert 0 < grant.remaining < 30
        assert "held" in repr(grant)
        grant.check()
        assert lease.try_acquire() is None
    assert holder(interlock_url) is None
    with lease.acquire(timeout=5) as second:
        assert second.token > grant.token
    third = lease.try_acquire()
    assert third is not None
    assert (third.release(), third.release()) == (True, False)


def test_threads_that_share_a_lease_take_turns(sync_locks: Interlock) -> None:
    lease = sync_locks.lease("feeds")
    inside = most = rounds = 0

    def work(_: int) -> None:
        nonlocal inside, most, rounds
        with lease:
            inside, rounds = inside + 1, rounds + 1
            most = max(most, inside)
            time.sleep(0)
            inside -= 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(40)))
    assert (most, rounds) == (1, 40)


def test_threads_share_statements(sync_locks: Interlock, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, "acquire")
    begin = threading.Barrier(16)

    def work(number: int) -> bool:
        begin.wait()
        return sync_locks.lease(f"feed {number}").acquire().release()

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(work, range(16)))
    assert len(calls) < 16
    assert sum(len(asks) for (asks,) in calls) == 16


def test_a_thread_that_would_wait_for_itself_gets_an_error(sync_locks: Interlock) -> None:
    with sync_locks.lease("feeds"), pytest.raises(errors.LeaseNested), sync_locks.lease("feeds"):
        pass


def test_an_ended_thread_that_did_not_release_is_not_confused_with_its_successor(sync_locks: Interlock) -> None:
    """The ids of ended threads are used again."""
    waited: list[str] = []

    def work() -> None:
        lease = sync_locks.lease(f"of thread {threading.get_ident()}")
        try:
            lease.acquire(timeout=0.01)
        except errors.LeaseTimeout:
            waited.append(lease.name)

    for _ in range(20):
        in_a_thread(work)
    assert waited, "no id was used again, so this test shows nothing"


def test_a_block_may_be_ended_by_another_thread(sync_locks: Interlock, interlock_url: str) -> None:
    lease = sync_locks.lease("feeds")

    def rows() -> Generator[int, None, None]:
        with lease:
            yield 1

    generator = rows()
    with ThreadPoolExecutor(1) as other:
        other.submit(next, generator).result()
        assert holder(interlock_url) is not None
    generator.close()
    assert holder(interlock_url) is None


def test_a_block_inside_one_that_released_the_lease(sync_locks: Interlock, interlock_url: str) -> None:
    lease = sync_locks.lease("feeds")
    with lease as first:
        first.release()
        with lease as second:
            assert holder(interlock_url) == second.grant_id
    assert holder(interlock_url) is None


def test_a_wait_ends_after_its_timeout(sync_locks: Interlock, interlock_url: str) -> None:
    lease = sync_locks.lease("feeds")
    with lease, ThreadPoolExecutor(1) as other:
        for timeout in (0, 0.05):
            with pytest.raises(errors.LeaseTimeout) as late:
                other.submit(lease.acquire, timeout).result()
            assert late.value.name == "feeds"
        eventually(lambda: queue(interlock_url) == [])


def test_a_loss_calls_back_and_raises_in_check_and_at_the_end_of_the_block(
    sync_locks: Interlock, interlock_url: str
) -> None:
    told: list[str] = []
    heard = threading.Event()

    def work() -> None:
        with brisk(sync_locks) as grant:
            grant.on_lost(told.append)
            grant.on_lost(lambda _: heard.set())
            take_away(interlock_url)
            assert heard.wait(20)
            assert grant.lost
            assert grant.remaining == 0
            with pytest.raises(errors.LeaseLost):
                grant.check()

    with pytest.raises(errors.LeaseLost, match="another process may hold it") as lost:
        work()
    assert lost.value.name == "feeds"
    assert told == ["refused"]


def test_a_callback_added_after_the_loss_is_called_at_once(sync_locks: Interlock, interlock_url: str) -> None:
    grant = brisk(sync_locks).acquire()
    take_away(interlock_url)
    eventually(lambda: grant.lost)
    told: list[str] = []
    grant.on_lost(told.append)
    assert told == ["refused"]


def test_callbacks_are_added_on_the_thread_that_calls_them(
    sync_locks: Interlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one thread, so that a loss cannot come in between and miss the callback."""
    threads: list[str] = []
    noted = AsyncGrant.on_lost

    def on_lost(grant: AsyncGrant, callback: Callable[[str], object]) -> None:
        threads.append(threading.current_thread().name)
        noted(grant, callback)

    monkeypatch.setattr(AsyncGrant, "on_lost", on_lost)
    sync_locks.lease("feeds").acquire().on_lost(print)
    assert threads == ["interlock"]


def test_a_body_is_not_started_without_the_lease(sync_locks: Interlock, interlock_url: str) -> None:
    grant = brisk(sync_locks).acquire()
    take_away(interlock_url)
    eventually(lambda: grant.lost)
    begun = False
    with pytest.raises(errors.LeaseLost), grant:
        begun = True
    assert not begun


def test_the_bodys_own_error_is_kept_as_the_cause_of_the_loss(sync_locks: Interlock, interlock_url: str) -> None:
    def work() -> None:
        with brisk(sync_locks) as grant:
            take_away(interlock_url)
            eventually(lambda: grant.lost)
            raise LookupError("on the way out")

    with pytest.raises(errors.LeaseLost) as lost:
        work()
    assert isinstance(lost.value.__cause__, LookupError)


def test_hand_over(sync_locks: Interlock, interlock_url: str) -> None:
    lease = sync_locks.lease("feeds")
    with lease as grant, ThreadPoolExecutor(1) as other:
        assert grant.hand_over() is False
        next_one = other.submit(lease.acquire, 20)
        eventually(lambda: queue(interlock_url))
        assert grant.hand_over() is True
        assert next_one.result().token > grant.token
        assert not grant.lost


@pytest.mark.parametrize("api", ["release", "hand_over", "close", "acquire"])
def test_a_callback_that_would_wait_for_the_thread_it_runs_in_is_refused(
    sync_locks: Interlock, interlock_url: str, api: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the renewals of all leases would stop, without any notification."""
    refusals: list[Exception] = []
    done = threading.Event()
    grant = brisk(sync_locks).acquire()
    calls: dict[str, Callable[[], object]] = {
        "release": grant.release,
        "hand_over": grant.hand_over,
        "close": sync_locks.close,
        "acquire": sync_locks.lease("other").acquire,
    }

    def call_back(_: str) -> None:
        try:
            calls[api]()
        except Exception as error:
            refusals.append(error)
        done.set()

    grant.on_lost(call_back)
    take_away(interlock_url)
    assert done.wait(20)
    assert api == "hand_over" or isinstance(refusals[0], errors.ConfigurationError), refusals
    with sync_locks.lease("other") as other:
        other.check()


class Interrupt(Exception):
    """As KeyboardInterrupt: raised in the main thread by a signal, at any line."""


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def interrupt_when(seen: Callable[[], object]) -> threading.Thread:
    main = threading.main_thread().ident
    assert main is not None

    def watch() -> None:
        eventually(seen)
        signal.pthread_kill(main, signal.SIGUSR1)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_an_interrupted_waiter_leaves_the_queue(sync_locks: Interlock, interlock_url: str) -> None:
    lease = sync_locks.lease("feeds")
    with ThreadPoolExecutor(1) as other:
        grant = other.submit(lease.acquire).result()
        with interrupting():
            watching = interrupt_when(lambda: queue(interlock_url))
            with pytest.raises(Interrupt):
                lease.acquire()
            watching.join()
    eventually(lambda: queue(interlock_url) == [])
    grant.release()
    assert lease.try_acquire() is not None


def test_a_thread_interrupted_just_before_it_waits_leaves_the_queue(
    sync_locks: Interlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer has put it into the queue, and the coroutine that waits has not run yet."""

    def go_on_and_be_cancelled(call: RequestCall[Any], coroutine: Coroutine[Any, Any, Any]) -> None:
        go_on(call, coroutine)
        call.cancel()

    lease = sync_locks.lease("feeds")
    go_on = RequestCall._go_on
    with ThreadPoolExecutor(1) as other:
        grant = other.submit(lease.acquire).result()
        while (
            "listen" not in sessions(interlock_url).values()
        ):  # once subscribed, it enters the queue with the first request
            with pytest.raises(errors.LeaseTimeout):
                lease.acquire(0.3)
        monkeypatch.setattr(RequestCall, "_go_on", go_on_and_be_cancelled)
        with pytest.raises(asyncio.CancelledError):
            lease.acquire()
        monkeypatch.undo()
        eventually(lambda: queue(interlock_url) == [])
        grant.release()
    assert lease.try_acquire() is not None


@pytest.mark.parametrize("method", ["acquire", "try_acquire"])
def test_a_grant_that_comes_together_with_the_interrupt_is_released(
    sync_locks: Interlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def send_and_be_interrupted(thread: LoopThread, request: Request[Any]) -> None:
        ask(thread, request)
        monkeypatch.undo()
        raise Interrupt

    ask = LoopThread.send
    monkeypatch.setattr(LoopThread, "send", send_and_be_interrupted)
    with pytest.raises(Interrupt):
        getattr(sync_locks.lease("feeds"), method)()
    assert execute(interlock_url, "SELECT count(*) FROM interlock.lease") == [(1,)]
    assert holder(interlock_url) is None


def test_an_event_hook_and_metrics(interlock_url: str) -> None:
    seen: list[object] = []
    with Interlock(interlock_url, on_event=seen.append) as locks:
        grant = brisk(locks).acquire()
        take_away(interlock_url)
        lost = eventually(lambda: [event for event in seen if isinstance(event, Lost)])
        assert grant.lost
        assert [(event.name, event.token, event.why) for event in lost] == [("feeds", grant.token, "refused")]
        figures = locks.metrics.snapshot()
        assert (figures.acquires["acquired"], figures.losses["refused"], figures.held) == (1, 1, 0)
    assert sessions(interlock_url) == {}


def test_many_threads_may_be_the_first_to_use_it(interlock_url: str) -> None:
    for _ in range(5):
        locks = Interlock(interlock_url)
        begin = threading.Barrier(16)

        def work(number: int, locks: Interlock = locks, begin: threading.Barrier = begin) -> bool:
            begin.wait()
            return locks.lease(f"feed {number}").acquire().release()

        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(work, range(16)))
        assert [thread.name for thread in threading.enumerate()].count("interlock") == 1
        locks.close()
