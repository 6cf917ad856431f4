"""Threads that are answered together: each is woken, a few at a time, also if one of them does not go on."""

import asyncio
import ctypes
import queue
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interlock import bridge, waking
from interlock.bridge import LoopThread, all_back
from interlock.waking import Bell, Waking
from support.waiting import eventually

PATIENCE = 30
THREADS = 16


@pytest.fixture
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not woken by the one before is never woken."""
    monkeypatch.setattr(waking, "_LONGEST", 3600)


@pytest.fixture
def loop(nobody_looks: None) -> Iterator[LoopThread]:
    loop = LoopThread("test-loop")
    yield loop
    loop.close()


def rung(bells: list[Bell]) -> list[int]:
    """Whose bell has rung since the last look."""
    return [number for number, bell in enumerate(bells) if not bell.empty() and bell.get() is None]


def bells(count: int) -> list[Bell]:
    return [queue.SimpleQueue() for _ in range(count)]


@pytest.mark.usefixtures("nobody_looks")
async def test_two_are_on_their_way_and_each_wakes_the_next() -> None:
    threads = Waking(asyncio.get_running_loop())
    waiting = bells(5)
    for bell in waiting:
        threads.add(bell)
    assert rung(waiting) == [0, 1]
    threads.awake()
    assert rung(waiting) == [2]
    threads.awake()
    threads.awake()
    assert rung(waiting) == [3, 4]
    threads.awake()
    threads.awake()
    for bell in waiting:
        threads.add(bell)
    assert rung(waiting) == [0, 1]


@pytest.mark.usefixtures("nobody_looks")
async def test_who_says_twice_that_it_is_awake_does_not_let_more_in() -> None:
    threads = Waking(asyncio.get_running_loop())
    for _ in range(5):
        threads.awake()
    waiting = bells(5)
    for bell in waiting:
        threads.add(bell)
    assert rung(waiting) == [0, 1]


async def test_if_nobody_says_that_it_is_awake_all_are_woken_after_a_moment() -> None:
    threads = Waking(asyncio.get_running_loop())
    waiting = bells(5)
    for bell in waiting:
        threads.add(bell)
    woken = [await asyncio.to_thread(bell.get, timeout=PATIENCE) for bell in waiting]
    assert woken == [None] * 5
    more = bells(3)
    for bell in more:  # of two places one has been given back
        threads.add(bell)
    assert rung(more)[0] == 0


@pytest.mark.usefixtures("nobody_looks")
async def test_as_long_as_they_wake_each_other_nobody_else_does() -> None:
    threads = Waking(asyncio.get_running_loop())
    waiting = bells(6)
    for bell in waiting:
        threads.add(bell)
    assert rung(waiting) == [0, 1]
    threads.awake()
    threads._look(waiting[2])  # who was the next then
    assert rung(waiting) == [2]
    threads._look(waiting[3])
    assert rung(waiting) == [3, 4, 5]


@pytest.mark.usefixtures("nobody_looks")
async def test_as_soon_as_it_takes_long_all_are_woken() -> None:
    threads = Waking(asyncio.get_running_loop())
    waiting = bells(6)
    for bell in waiting:
        threads.add(bell)
    assert rung(waiting) == [0, 1]
    threads._rung_at -= 1
    threads.awake()
    assert rung(waiting) == [2, 3, 4, 5]


@pytest.mark.usefixtures("nobody_looks")
async def test_who_is_interrupted_while_it_wakes_another_leaves_that_one_to_the_next() -> None:
    class Interrupting(queue.SimpleQueue[Any]):
        interrupts = 1

        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            if self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            super().put(item)

    threads = Waking(asyncio.get_running_loop())
    waiting = [*bells(2), Interrupting()]
    for bell in waiting:
        threads.add(bell)
    assert rung(waiting) == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        threads.awake()
    threads.awake()
    assert rung(waiting) == [2]


def test_all_threads_are_answered(loop: LoopThread) -> None:
    answered = asyncio.Event()

    async def wait() -> None:
        await answered.wait()

    async def answer() -> None:
        answered.set()

    threads = [threading.Thread(target=loop.run, args=(wait(),), daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(asyncio.all_tasks(loop.loop)) == THREADS)
    loop.run(answer())
    for thread in threads:
        thread.join(PATIENCE / THREADS)
    assert not any(thread.is_alive() for thread in threads)


def test_all_threads_are_answered_many_times(loop: LoopThread) -> None:
    async def twice(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    def work() -> list[int]:
        return [loop.run(twice(number)) for number in range(200)]

    with ThreadPoolExecutor(THREADS) as threads:
        for result in [threads.submit(work) for _ in range(THREADS)]:
            assert result.result(PATIENCE) == [2 * number for number in range(200)]


def test_a_thread_that_is_interrupted_wakes_the_next(loop: LoopThread) -> None:
    """Each in turn, so that neither place is lost."""

    async def wait() -> None:
        await asyncio.Event().wait()

    async def nothing() -> None:
        return None

    def leave() -> None:
        with pytest.raises(SystemExit):
            loop.run(wait())

    for _ in range(5):
        waiting = threading.Thread(target=leave, daemon=True)
        waiting.start()
        eventually(lambda: asyncio.all_tasks(loop.loop))
        assert waiting.ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(waiting.ident), ctypes.py_object(SystemExit))
        for task in asyncio.all_tasks(loop.loop):
            loop.loop.call_soon_threadsafe(task.cancel)  # a thread that waits for a lock is interrupted when it wakes
        waiting.join(PATIENCE)
        assert not waiting.is_alive()
    with ThreadPoolExecutor(4) as threads:
        for result in [threads.submit(loop.run, nothing()) for _ in range(8)]:
            result.result(PATIENCE)


def test_a_main_thread_that_is_interrupted_gives_its_place_back(loop: LoopThread) -> None:
    caller = threading.get_ident()

    async def work() -> None:
        signal.pthread_kill(caller, signal.SIGINT)
        await asyncio.Event().wait()

    async def nothing() -> None:
        return None

    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            loop.run(work())
    loop.run(nothing())


def test_who_was_answered_is_let_come_back(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "_RETURN", 0.2)
    may_answer = asyncio.Event()

    async def first() -> None:
        await may_answer.wait()

    async def second() -> str:
        return "second"

    def work() -> str:
        loop.run(first())
        return loop.run(second())

    async def answer() -> list[str]:
        may_answer.set()
        await asyncio.sleep(0)  # it ends
        await all_back()
        return [task.get_coro().__qualname__.rpartition(".")[2] for task in asyncio.all_tasks()]  # type: ignore[union-attr]

    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(work)
        eventually(lambda: asyncio.all_tasks(loop.loop))
        answering = asyncio.run_coroutine_threadsafe(answer(), loop.loop)
        assert sorted(answering.result(PATIENCE)) == ["answer", "second"]
        assert working.result(PATIENCE) == "second"


async def test_on_a_loop_without_a_thread_of_its_own_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "_RETURN", 3600)
    await asyncio.wait_for(all_back(), PATIENCE)
