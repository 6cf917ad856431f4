"""Callers without an event loop: the threads that run their code, and the cleanup after an interrupt."""

import asyncio
import contextvars
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from interlock.bridge import LoopThread, Request, in_caller, in_caller_until_done, in_thread, loop_thread
from interlock.errors import ConfigurationError
from support.waiting import eventually


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread("test-loop")
    yield loop
    loop.close()


async def where() -> threading.Thread:
    return threading.current_thread()


def interrupted() -> None:
    raise KeyboardInterrupt


def test_the_result_is_returned(loop: LoopThread) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert loop.run(answer()) == 42


def test_an_error_is_raised(loop: LoopThread) -> None:
    async def fail() -> None:
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        loop.run(fail())


def test_the_coroutine_runs_in_the_loops_thread(loop: LoopThread) -> None:
    assert loop.run(where()).name == "test-loop"


def test_a_callback_runs_in_the_callers_thread(loop: LoopThread) -> None:
    async def call_back() -> threading.Thread:
        return await in_caller(threading.current_thread)

    assert loop.run(call_back()) is threading.current_thread()


def test_an_error_of_a_callback_reaches_the_coroutine(loop: LoopThread) -> None:
    def broken() -> None:
        raise LookupError("not here")

    async def call_back() -> str:
        try:
            await in_caller(broken)
        except LookupError as error:
            return str(error)
        return "nothing"

    assert loop.run(call_back()) == "not here"


def test_the_loop_goes_on_while_the_caller_works(loop: LoopThread) -> None:
    beat = threading.Event()

    async def call_back() -> bool:
        asyncio.get_running_loop().call_soon(beat.set)
        return await in_caller(lambda: beat.wait(10))

    assert loop.run(call_back())


def test_the_coroutine_has_the_callers_context(loop: LoopThread) -> None:
    color: contextvars.ContextVar[str] = contextvars.ContextVar("color")
    color.set("red")

    async def look() -> str:
        return color.get()

    assert loop.run(look()) == "red"


def test_an_interrupted_caller_returns_after_the_cleanup(loop: LoopThread) -> None:
    seen = []

    async def work() -> None:
        try:
            await in_caller(interrupted)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            seen.append("cleaned up")
            raise

    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    assert seen == ["cleaned up"]


def test_a_caller_that_only_waits_can_be_interrupted(loop: LoopThread) -> None:
    seen = []
    caller = threading.get_ident()

    async def work() -> None:
        try:
            signal.pthread_kill(caller, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    assert seen == ["cleaned up"]


def test_an_interrupt_that_does_not_wake_the_caller_is_noticed(loop: LoopThread) -> None:
    """Another thread receives the signal; Python handles it in the main thread, which is still waiting."""

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        loop.run(work())


def test_a_cleanup_that_calls_back_an_interrupted_caller_is_refused(loop: LoopThread) -> None:
    asked = []

    async def work() -> None:
        try:
            await in_caller(interrupted)
        finally:
            await in_caller(lambda: asked.append("too late"))

    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    assert asked == []


def test_a_coroutine_may_stop_waiting_for_its_caller(loop: LoopThread) -> None:
    gave_up = threading.Event()

    async def work() -> str:
        waiting = asyncio.create_task(in_caller(lambda: gave_up.wait(10)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        gave_up.set()
        return "went on"

    assert loop.run(work()) == "went on"


def test_in_caller_until_done_is_cancelled_only_after_the_callback(loop: LoopThread) -> None:
    begun, cancelled = threading.Event(), threading.Event()
    seen = []

    def work() -> None:
        begun.set()
        cancelled.wait(10)
        seen.append("ended")

    async def stay() -> None:
        try:
            await in_caller_until_done(work)
        except asyncio.CancelledError:
            seen.append("cancelled")

    async def cancel_it() -> None:
        staying = asyncio.create_task(stay())
        await asyncio.to_thread(begun.wait, 10)
        for _ in range(2):
            staying.cancel()
            await asyncio.sleep(0)
        cancelled.set()
        await staying

    loop.run(cancel_it())
    assert seen == ["ended", "cancelled"]


@pytest.mark.timeout(30)
def test_an_interrupt_just_after_a_callback_leaves_no_coroutine_waiting(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is recorded, and the waiting coroutine was not notified of it."""

    def be_interrupted(_: object) -> None:
        monkeypatch.undo()
        interrupted()

    def work() -> None:
        monkeypatch.setattr(Future, "_invoke_callbacks", be_interrupted)

    with pytest.raises(KeyboardInterrupt):
        loop.run(in_caller_until_done(work))


@pytest.mark.timeout(30)
def test_a_callback_may_close_the_loop(loop: LoopThread) -> None:
    with pytest.raises(ConfigurationError, match="closed"):
        loop.run(in_caller_until_done(loop.close))


def test_a_callback_without_a_waiting_coroutine_is_not_run(loop: LoopThread) -> None:
    made = []
    holding_up, gave_up = threading.Event(), threading.Event()

    def hold_up() -> None:
        holding_up.set()
        gave_up.wait(10)

    async def work() -> None:
        first = asyncio.create_task(in_caller(hold_up))
        await asyncio.to_thread(holding_up.wait, 10)
        second = asyncio.create_task(in_caller(lambda: made.append(1)))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        gave_up.set()
        await first

    loop.run(work())
    assert made == []


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_inside_a_coroutine_is_raised_in_its_caller(loop: LoopThread, kind: type[BaseException]) -> None:
    raised = []

    async def leave() -> None:
        raise kind

    def call() -> None:
        try:
            loop.run(leave())
        except kind as error:
            raised.append(error)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    caller.join(10)
    assert [type(error) for error in raised] == [kind]
    assert loop.run(where()).name == "test-loop", "the loop goes on"


def test_threads_share_a_loop_and_each_runs_its_own_callbacks(loop: LoopThread) -> None:
    all_here = threading.Barrier(4)

    async def call_back() -> int:
        await in_caller(lambda: all_here.wait(10))
        return await in_caller(threading.get_ident)

    def call(_: int) -> bool:
        return loop.run(call_back()) == threading.get_ident()

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(call, range(4)))


def test_closing_ends_the_thread() -> None:
    loop = LoopThread("short-lived")
    thread = loop.run(where())
    assert thread.is_alive()
    loop.close()
    assert not thread.is_alive()


def test_a_caller_that_waits_during_close_gets_an_error() -> None:
    loop = LoopThread("short-lived")
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(loop.run, wait())
        assert begun.wait(10)
        loop.close()
        with pytest.raises(ConfigurationError, match="closed"):
            waiting.result()


def closing_first(loop: LoopThread, monkeypatch: pytest.MonkeyPatch, close: Callable[[], None]) -> None:
    """The loop is open when a thread calls, and closed before the call arrives."""
    arrive = loop._start_soon

    def late(call: Any) -> None:
        close()
        arrive(call)

    monkeypatch.setattr(loop, "_start_soon", late)


def test_a_call_just_after_the_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = LoopThread("short-lived")
    closing_first(loop, monkeypatch, loop.close)
    with pytest.raises(ConfigurationError, match="closed"):
        loop.run(where())


def test_a_call_just_before_the_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = LoopThread("short-lived")
    begun, leaving, leave = threading.Event(), threading.Event(), threading.Event()

    async def be_slow_to_leave() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            leaving.set()
            await asyncio.to_thread(leave.wait, 10)

    with ThreadPoolExecutor(3) as threads:
        slow = threads.submit(loop.run, be_slow_to_leave())
        assert begun.wait(10)

        def close() -> None:
            threads.submit(loop.close)
            assert leaving.wait(10)

        closing_first(loop, monkeypatch, close)
        late = threads.submit(loop.run, where())
        assert leaving.wait(10)
        leave.set()
        for caller in (slow, late):
            with pytest.raises(ConfigurationError, match="closed"):
                caller.result()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_inside_a_coroutine_during_close_leaves_no_caller_waiting(kind: type[BaseException]) -> None:
    loop = LoopThread("test-loop")

    async def leave() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise kind

    async def wait() -> None:
        await asyncio.Event().wait()

    with ThreadPoolExecutor(2) as threads:
        leaving, waiting = threads.submit(loop.run, leave()), threads.submit(loop.run, wait())
        eventually(lambda: len(asyncio.all_tasks(loop.loop)) == 2)
        loop.close()
        with pytest.raises(kind):
            leaving.result(10)
        with pytest.raises(ConfigurationError, match="closed"):
            waiting.result(10)


def test_a_thread_that_cannot_be_started_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = dict(loop_thread._open)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        LoopThread("test-loop")
    assert loop_thread._open == before


def test_code_on_the_loop_cannot_wait_for_the_loop(loop: LoopThread) -> None:
    async def call_itself() -> None:
        loop.run(where())

    with pytest.raises(ConfigurationError, match="A callback cannot wait for the thread that it runs in"):
        loop.run(call_itself())
    assert loop.run(where()).name == "test-loop"


async def test_in_thread_does_not_block_the_callers_loop() -> None:
    assert await in_thread(threading.current_thread) is not threading.current_thread()


def test_an_interrupt_while_posting_does_not_block_other_callers(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had recorded that the loop is woken, and had not woken it."""
    call_soon, done = loop.loop.call_soon_threadsafe, threading.Event()

    def interrupt_once(*args: Any) -> None:
        monkeypatch.undo()
        interrupted()

    monkeypatch.setattr(loop.loop, "call_soon_threadsafe", interrupt_once)
    with pytest.raises(KeyboardInterrupt):
        loop.post(done.set)
    assert loop.loop.call_soon_threadsafe == call_soon
    assert done.wait(10)
    assert loop.run(where()).name == "test-loop"


def test_a_posted_function_runs_before_later_calls(loop: LoopThread) -> None:
    done: list[int] = []

    async def look() -> list[int]:
        return list(done)

    for number in range(100):
        loop.post(lambda number=number: done.append(number))  # type: ignore[misc]
        assert loop.run(look())[-1] == number


@pytest.mark.parametrize("error", [SystemExit, LookupError])
def test_a_posted_function_that_fails_does_not_block_other_callers(
    loop: LoopThread, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    may_go_on, done = threading.Event(), threading.Event()

    def fail() -> None:
        raise error

    loop.loop.call_soon_threadsafe(may_go_on.wait)  # so that all of them are there when the loop runs them
    loop.post(fail)
    loop.post(done.set)
    called = threading.Thread(target=lambda: loop.run(where()), daemon=True)
    called.start()
    may_go_on.set()
    called.join(10)
    assert not called.is_alive()
    assert done.is_set()
    assert len(caplog.records) == (error is LookupError)


def test_a_posted_function_that_fails_does_not_prevent_the_final_coroutine() -> None:
    loop, may_go_on, done = LoopThread("test-loop"), threading.Event(), []

    def fail() -> None:
        raise LookupError("not here")

    async def last() -> None:
        done.append("last")

    def close() -> None:
        with pytest.raises(LookupError, match="not here"):
            loop.close(last)

    loop.loop.call_soon_threadsafe(may_go_on.wait)
    loop.post(fail)
    with ThreadPoolExecutor(1) as threads:
        closing = threads.submit(close)
        eventually(lambda: loop.is_closing)
        may_go_on.set()
        closing.result(10)
    assert done == ["last"]


def test_all_threads_are_answered_many_times(loop: LoopThread) -> None:
    async def twice(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    def work() -> list[int]:
        return [loop.run(twice(number)) for number in range(200)]

    with ThreadPoolExecutor(16) as threads:
        for result in [threads.submit(work) for _ in range(16)]:
            assert result.result(10) == [2 * number for number in range(200)]


@pytest.fixture
def interrupted_at_once(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The loop is blocked until its caller was interrupted: the call and its cancellation arrive together."""
    standing, go, caller = threading.Event(), threading.Event(), threading.get_ident()
    call_soon = loop._call_soon

    def hold_up() -> None:
        standing.set()
        go.wait()

    def call_after_interrupt(callback: Callable[[], object]) -> None:
        call_soon(callback)
        if callback.__name__ == "cancel":
            go.set()

    def interrupt() -> None:
        eventually(lambda: loop._arriving)
        signal.pthread_kill(caller, signal.SIGINT)

    loop.post(hold_up)
    standing.wait()
    monkeypatch.setattr(loop, "_call_soon", call_after_interrupt)
    thread = threading.Thread(target=interrupt)
    thread.start()
    yield
    thread.join()


def test_a_call_of_an_interrupted_caller_is_started(loop: LoopThread, interrupted_at_once: None) -> None:
    """It may release a lock, and nothing else would."""
    seen = []

    async def release() -> None:
        seen.append("begun")
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        loop.run(release())
    assert seen == ["begun"]


class AnsweredAtOnce(Request[None]):
    """Its response says that it has to wait."""

    def send(self) -> "asyncio.Future[None]":
        asked = asyncio.get_running_loop().create_future()
        asked.set_result(None)
        return asked

    def receive(self) -> Coroutine[Any, Any, None]:
        async def wait() -> None:
            await asyncio.Event().wait()

        return wait()


@pytest.mark.timeout(30)
def test_an_interrupt_that_comes_with_the_response_is_not_lost(loop: LoopThread, interrupted_at_once: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        loop.send(AnsweredAtOnce())


def test_a_posted_function_runs_although_its_caller_is_interrupted(loop: LoopThread) -> None:
    class Posted(deque[Callable[[], object]]):
        def append(self, function: Callable[[], object]) -> None:
            super().append(function)
            interrupted()

    done = threading.Event()
    loop._posted = Posted()
    with pytest.raises(KeyboardInterrupt):
        loop.post(done.set)
    assert done.wait(10)


def test_a_late_stop_does_not_interrupt_the_final_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop notices `close` by itself, and has begun to end before `close` asks it to stop."""
    loop, giving_back, arrived = LoopThread("test-loop"), threading.Event(), asyncio.Event()
    call_soon = loop.loop.call_soon_threadsafe
    done: list[str] = []

    async def last() -> None:
        giving_back.set()
        await arrived.wait()
        await asyncio.sleep(0)
        done.append("given back")

    def call_late(callback: Callable[[], object]) -> None:
        call_soon(interrupted)
        assert giving_back.wait(10)
        call_soon(callback)
        call_soon(arrived.set)

    monkeypatch.setattr(loop.loop, "call_soon_threadsafe", call_late)
    loop.close(last)
    assert done == ["given back"]
    assert loop.loop.is_closed()


def test_a_caller_interrupted_before_its_call_arrived_does_not_wait_for_an_ended_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = LoopThread("test-loop")

    def close_and_be_interrupted(_: Any) -> None:
        loop.close()
        interrupted()

    monkeypatch.setattr(loop, "_start_soon", close_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run(where())


def test_an_interrupted_close_still_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, done = LoopThread("test-loop"), []

    async def last() -> None:
        await asyncio.sleep(0)
        done.append("last")

    def interrupt_once(*args: Any) -> None:
        monkeypatch.undo()
        interrupted()

    monkeypatch.setattr(loop.loop, "call_soon_threadsafe", interrupt_once)
    with pytest.raises(KeyboardInterrupt):
        loop.close(last)
    loop._thread.join(10)
    assert loop.loop.is_closed()
    assert done == ["last"]


AT_THE_END = """
from interlock.bridge import LoopThread

thread = LoopThread("test-loop")

async def release(): ...

def block():
    try:
        yield
    finally:
        try:
            thread.run(release())
        finally:
            thread.close()

inside = block()
next(inside)
"""


def test_a_block_that_ends_with_the_interpreter_does_not_hang() -> None:
    """The loop's thread has stopped by then."""
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "The interpreter is ending" in done.stderr
