"""The one bridge between callers without an event loop and the asynchronous implementation.

A `LoopThread` runs an event loop in a thread of its own: heartbeats go on there while the caller computes. Whatever
the implementation has to call back (a check, a step's effect) runs in the *caller's* thread, because things that users
hold are often bound to it: Django's connections, SQLite's, anything in a thread-local.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

_Jobs = queue.SimpleQueue[Callable[[], None] | None]
_caller: contextvars.ContextVar[_Jobs] = contextvars.ContextVar("caller")


class RunBlocking(Protocol):
    """Runs a function that may block, where it holds up no event loop."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


async def in_thread(function: Callable[[], T], /) -> T:
    """`RunBlocking` for callers that are on an event loop themselves."""
    return await asyncio.to_thread(function)


async def in_caller(function: Callable[[], T], /) -> T:
    """`RunBlocking` below `LoopThread.run`: the function runs in the thread that waits there."""
    done: Future[T] = Future()

    def job() -> None:
        try:
            done.set_result(function())
        except Exception as error:
            done.set_exception(error)

    _caller.get().put(job)
    return await asyncio.wrap_future(done)


class LoopThread:
    """An event loop in a daemon thread, for any number of calling threads. `close()` ends both."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait in the calling thread for the coroutine. If that thread is interrupted, the coroutine is cancelled."""
        jobs: _Jobs = queue.SimpleQueue()
        task = self._started(coroutine, jobs)
        try:
            while (job := jobs.get()) is not None:
                job()
        except BaseException:
            self._loop.call_soon_threadsafe(task.cancel)
            while jobs.get() is not None:  # what it still asks for is not done; it ends, and only then do we
                pass
            raise
        return task.result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _started(self, coroutine: Coroutine[Any, Any, T], jobs: _Jobs) -> "asyncio.Task[T]":
        started: Future[asyncio.Task[T]] = Future()
        context = contextvars.copy_context()
        context.run(_caller.set, jobs)

        def start() -> None:
            task = self._loop.create_task(coroutine, context=context)
            task.add_done_callback(lambda _: jobs.put(None))
            started.set_result(task)

        self._loop.call_soon_threadsafe(start)
        return started.result()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
