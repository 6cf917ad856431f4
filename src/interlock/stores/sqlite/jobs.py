"""Jobs for a thread, and the thread that runs them.

A coroutine waits for each job, and may give the job up. The thread runs a job only if it begins the job before the
coroutine gives it up.
"""

import asyncio
import collections
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from interlock import errors

T = TypeVar("T")
C = TypeVar("C")


class ThreadJob(Generic[C, T]):
    """The thread calls `work`, and then sets `is_durable` if the answer has to wait for the disk."""

    def __init__(self, work: Callable[[C], T]) -> None:
        self.work = work
        self.is_taken = False
        self.is_durable = False
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self._loop.create_future()
        self._future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._decided = threading.Lock()

    @property
    def is_wanted(self) -> bool:
        return self.is_taken or not self._decided.locked()

    def take(self) -> bool:
        """Called in the thread, before it runs the job. Returns False if the job was given up."""
        self.is_taken = self.is_taken or self._decided.acquire(blocking=False)
        return self.is_taken

    async def answer(self, lock_timeout: float, run_timeout: float) -> T:
        """Returns the result of the job. Raises `LockNotAvailable` if the thread did not begin it in `lock_timeout`.

        Such a job is never run. Raises `ConnectionLost` if the job was begun and did not end within `run_timeout`: the
        outcome of the job is then unknown.
        """
        self._timer = self._loop.call_later(lock_timeout, self._give_up, run_timeout)
        try:
            return await self._future
        except asyncio.CancelledError:
            self._decided.acquire(blocking=False)
            raise
        finally:
            self._timer.cancel()

    def _give_up(self, run_timeout: float) -> None:
        if self._decided.acquire(blocking=False):
            self.settle(None, errors.LockNotAvailable("The file with the leases stayed locked: try again."))
        else:
            late = errors.ConnectionLost("The disk with the leases did not answer in time: check the disk.")
            self._timer = self._loop.call_later(run_timeout, self.settle, None, late)

    def settle(self, result: T | None, error: Exception | None) -> None:
        """Set the job's result or error, unless it has one already. Has to be called on the event loop."""
        if self._future.done():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)  # type: ignore[arg-type] # without an error there is a result


Settled = tuple[ThreadJob[Any, Any], Any, Exception | None]


J = TypeVar("J", bound=ThreadJob[Any, Any])


class Worker(Generic[J]):
    """A thread that is started by the first job, and again by the first job after a stop.

    The thread calls `serve` with each job, and `end` before it ends.
    """

    def __init__(self, name: str, serve: Callable[[J], None], end: Callable[[], None]) -> None:
        self._name = name
        self._serve = serve
        self._end = end
        self._jobs: collections.deque[J] = collections.deque()
        self._lock = threading.RLock()
        """C functions take and release this lock. An interrupt could leave the own lock of a condition taken."""
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def submit(self, job: J) -> None:
        with self._lock:
            try:
                self._jobs.append(job)
                self._require_thread()
                self._changed.notify()
            except BaseException:  # too many threads, or an interrupt: the next job tries again
                with suppress(ValueError):  # it was not appended yet
                    self._jobs.remove(job)
                raise
            self._is_stopping = False

    def waiting(self) -> list[J]:
        """Called in the thread. Returns, and removes, the jobs that were submitted meanwhile."""
        with self._lock:
            found = list(self._jobs)
            self._jobs.clear()
        return found

    def stop(self) -> threading.Thread | None:
        """Let the thread end after the waiting jobs, unless more jobs are submitted. Returns the thread, if any."""
        with self._lock:
            self._is_stopping = True
            self._changed.notify()
            return self._thread

    def _require_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        with self._lock:  # `submit` holds it until `_thread` is set; if that was interrupted, it never is
            if self._thread is not threading.current_thread():
                return
        while job := self._next():
            self._serve(job)

    def _next(self) -> J | None:
        with self._lock:
            while not self._jobs and not self._is_stopping:
                self._changed.wait()
            if self._jobs:
                return self._jobs.popleft()
        self._end()  # may take long, and `submit` does not wait for it
        with self._lock:
            if self._jobs:
                return self._jobs.popleft()
            self._thread = None
            return None


def deliver(settled: Sequence[Settled]) -> None:
    """Pass results from the thread to the event loop, unless the event loop has ended."""

    def settle() -> None:
        for job, result, error in settled:
            job.settle(result, error)

    if settled:
        with suppress(RuntimeError):
            settled[0][0]._loop.call_soon_threadsafe(settle)
