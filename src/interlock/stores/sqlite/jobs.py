"""Work for a thread, and the thread.

Somebody on the event loop waits for each job, and may stop waiting. Whether a job is still done then is decided once,
by whoever comes first: the thread that begins it, or the one that gives it up.
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
    """`work` is called in the thread, which then says whether it `is_durable`: answered when it is on the disk."""

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
        """In the thread. False: it was given up."""
        self.is_taken = self.is_taken or self._decided.acquire(blocking=False)
        return self.is_taken

    async def answer(self, patience: float, longest: float) -> T:
        """`LockNotAvailable`: it was not begun within `patience`, and never will be. `ConnectionLost`: it was begun,
        and nobody knows how it ended."""
        self._timer = self._loop.call_later(patience, self._give_up, longest)
        try:
            return await self._future
        except asyncio.CancelledError:
            self._decided.acquire(blocking=False)
            raise
        finally:
            self._timer.cancel()

    def _give_up(self, longest: float) -> None:
        if self._decided.acquire(blocking=False):
            self.settle(None, errors.LockNotAvailable("The file with the leases stayed locked by another: try again."))
        else:
            late = errors.ConnectionLost("The disk with the leases did not answer in time: look at it.")
            self._timer = self._loop.call_later(longest, self.settle, None, late)

    def settle(self, result: T | None, error: Exception | None) -> None:
        """On the event loop."""
        if self._future.done():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)  # type: ignore[arg-type] # without an error there is a result


Settled = tuple[ThreadJob[Any, Any], Any, Exception | None]


J = TypeVar("J", bound=ThreadJob[Any, Any])


class Worker(Generic[J]):
    """A thread that is begun by the first job, and by the first after it was stopped. `serve` gets the next job; `end`
    is called in it when it ends."""

    def __init__(self, name: str, serve: Callable[[J], None], end: Callable[[], None]) -> None:
        self._name = name
        self._serve = serve
        self._end = end
        self._jobs: collections.deque[J] = collections.deque()
        self._lock = threading.RLock()
        """``with`` takes it and gives it back by C functions. In a condition's, an interrupt may leave it taken."""
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
            except BaseException:  # there are too many, or we were interrupted: the next job tries again
                with suppress(ValueError):  # before it was even there
                    self._jobs.remove(job)
                raise
            self._is_stopping = False

    def waiting(self) -> list[J]:
        """In the thread: who has come meanwhile."""
        with self._lock:
            found = list(self._jobs)
            self._jobs.clear()
        return found

    def stop(self) -> threading.Thread | None:
        """It ends after what waits, unless more comes."""
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
        with self._lock:  # who starts us has it until we are known here; if that was interrupted, we never will be
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
        self._end()  # which may take long, and nobody who brings work waits for it
        with self._lock:
            if self._jobs:
                return self._jobs.popleft()
            self._thread = None
            return None


def deliver(settled: Sequence[Settled]) -> None:
    """From the thread to whoever waits; if their event loop has ended, to nobody."""

    def settle() -> None:
        for job, result, error in settled:
            job.settle(result, error)

    if settled:
        with suppress(RuntimeError):
            settled[0][0]._loop.call_soon_threadsafe(settle)
