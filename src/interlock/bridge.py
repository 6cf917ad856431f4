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
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Job(Generic[T]):
    """A function for the caller's thread. Whoever takes it from the queue either runs or refuses it."""

    function: Callable[[], T]
    done: "Future[T]" = field(default_factory=Future)

    def run(self) -> None:
        if not self.done.set_running_or_notify_cancel():
            return  # nobody waits for it any more
        try:
            self.done.set_result(self.function())
        except Exception as error:
            self.done.set_exception(error)

    def refuse(self) -> None:
        self.done.cancel()


_Jobs = queue.SimpleQueue[_Job[Any] | None]
_caller: contextvars.ContextVar[_Jobs] = contextvars.ContextVar("caller")


class RunBlocking(Protocol):
    """Runs a function that may block, where it holds up no event loop."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


async def in_thread(function: Callable[[], T], /) -> T:
    """`RunBlocking` for callers that are on an event loop themselves."""
    return await asyncio.to_thread(function)


async def in_caller(function: Callable[[], T], /) -> T:
    """`RunBlocking` below `LoopThread.run`: the function runs in the thread that waits there."""
    job = _Job(function)
    _caller.get().put(job)
    return await asyncio.wrap_future(job.done)


class LoopThread:
    """An event loop in a daemon thread, for any number of calling threads. `close()` ends both."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = False
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait in the calling thread for the coroutine. If that thread is interrupted, the coroutine is cancelled."""
        jobs: _Jobs = queue.SimpleQueue()
        task = self._started(coroutine, jobs)
        try:
            while (job := jobs.get()) is not None:
                job.run()
        except BaseException:
            self._loop.call_soon_threadsafe(task.cancel)
            while (job := jobs.get()) is not None:  # what it still asks for is not done; it ends, and only then do we
                job.refuse()
            raise
        return task.result()

    def close(self) -> None:
        self._closing = True
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
        while not self._closing:
            with suppress(SystemExit, KeyboardInterrupt):  # raised in a task: they are for its caller, who is told
                self._loop.run_forever()
