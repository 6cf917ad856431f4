"""Functions that run in the caller's own thread while it waits, because users' objects are often bound to that
thread."""

import asyncio
import contextvars
import queue
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class CallerJob(Generic[T]):
    """A function to run in the caller's thread. The thread takes it from the queue once, and then runs or refuses
    it."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.done: Future[T] = Future()

    def run(self) -> None:
        if not self.done.set_running_or_notify_cancel():
            return  # its waiter has gone
        try:
            self.done.set_result(self.function())
        except Exception as error:
            self.done.set_exception(error)

    def refuse(self) -> None:
        self.done.cancel()

    def abandon(self) -> None:
        """End the job of a thread that was interrupted while it ran the function, and will not finish it."""
        if not self.done.done():
            self.done.set_exception(asyncio.CancelledError())


Jobs = queue.SimpleQueue[CallerJob[Any] | None]
caller: contextvars.ContextVar[Jobs] = contextvars.ContextVar("caller")


class RunBlocking(Protocol):
    """Runs a function that may block, and does not block the event loop meanwhile."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


async def in_thread(function: Callable[[], T], /) -> T:
    """A `RunBlocking` for callers on an event loop: the function runs in another thread.

    A thread cannot be stopped. If the caller is cancelled meanwhile, it waits until the function has ended, so that no
    lock is released while the function still runs.
    """
    job = CallerJob(function)
    thread = asyncio.ensure_future(asyncio.to_thread(job.run))
    try:
        await asyncio.shield(thread)
    except asyncio.CancelledError:
        if job.done.cancel():  # it was still waiting for a thread, and will never run
            raise
        while not thread.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([thread])
        raise
    return job.done.result()


async def in_caller(function: Callable[[], T], /) -> T:
    """A `RunBlocking` for coroutines under `LoopThread.run`: the function runs in the thread that waits for the
    coroutine."""
    job = CallerJob(function)
    caller.get().put(job)
    return await asyncio.wrap_future(job.done)
