"""The calls that a thread waits for while the loop works on them: a coroutine, or a request with one response."""

import asyncio
import contextvars
import queue
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from interlock.bridge.jobs import CallerJob, Jobs, caller
from interlock.errors import ConfigurationError

if TYPE_CHECKING:
    from interlock.bridge.loop_thread import LoopThread

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_SIGNAL_CHECK_EVERY = 1.0
"""The seconds after which a waiting thread wakes up to handle signals. A signal that came just before the wait, or to
another thread, does not wake it."""

CLOSED = "This object is closed, or the process that forked this one opened it: open it again in this process."
ENDING = "The interpreter is ending, and its loop thread has stopped: close this object before that."


class Call(Generic[T]):
    """A piece of work on the loop that a thread waits for. `jobs` has the jobs for the calling thread; a None in it
    means that the call has ended.

    `ended` means the same, and stays True: an interrupt may hit the caller just when it has taken that None.
    """

    def __init__(self, thread: "LoopThread") -> None:
        self.jobs: Jobs = queue.SimpleQueue()
        self.ended = False
        self._thread = thread
        self._context = contextvars.copy_context()
        self._context.run(caller.set, self.jobs)
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        """Start the call. This method has to be called on the loop. Errors are raised in the caller."""
        raise NotImplementedError

    def cancel(self) -> None:
        if self._task:  # after its first step: cleanup code of the coroutine is entered then
            self._thread.loop.call_soon(self._task.cancel)
        elif not self.ended:  # not started yet
            self._refuse()
            self._end()

    def next_job(self) -> CallerJob[Any] | None:
        """Return the next job, or None once the call has ended. The waiting thread calls it. Python handles a signal
        only while that thread runs, so the thread wakes up now and then."""
        while True:
            try:
                return self.jobs.get(timeout=_SIGNAL_CHECK_EVERY)
            except queue.Empty:
                if sys.is_finalizing():
                    raise ConfigurationError(ENDING) from None
                if self._thread.is_over and self._task is None:  # interrupted before the loop had this call
                    self.cancel()

    def result(self) -> T:
        if self._task is None:
            raise ConfigurationError(CLOSED)
        return self._task.result()

    def _refuse(self) -> None:
        """Clean up a call that will never be started."""

    def _go_on(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._task = self._thread.loop.create_task(coroutine, context=self._context)
        self._task.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self.ended = True
        self.jobs.put(None)


class CoroutineCall(Call[T]):
    def __init__(self, thread: "LoopThread", coroutine: Coroutine[Any, Any, T]) -> None:
        super().__init__(thread)
        self._coroutine = coroutine

    def start(self) -> None:
        if not self.ended:  # else the caller was interrupted
            self._go_on(self._coroutine)

    def _refuse(self) -> None:
        self._coroutine.close()


class RequestCall(Call[T]):
    """A request that mostly needs nothing after its response, so it runs without a task: a task would cost more than
    the request itself."""

    def __init__(self, thread: "LoopThread", request: "Request[T]") -> None:
        super().__init__(thread)
        self._request = request
        self._response: asyncio.Future[Any] | None = None
        self._result: T
        self._error: BaseException | None = None

    def start(self) -> None:
        if self.ended:
            return
        try:
            self._response = self._context.run(self._request.send)
        except BaseException as error:
            self._error = error
            self._end()
        else:
            self._thread.pending.add(self)
            self._response.add_done_callback(self._receive, context=self._context)

    def cancel(self) -> None:
        if self._task is not None or self._response is None:
            super().cancel()
        elif not self.ended and not self._response.cancel():  # it is done, and its callback has not run yet
            self._thread.loop.call_soon(self.cancel)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result if self._response is not None and self._task is None else super().result()

    def _end(self) -> None:
        if self._task is not None and self._task.cancelled():
            self._request.give_up()
        super()._end()

    def _receive(self, response: "asyncio.Future[Any]") -> None:
        self._thread.pending.discard(self)
        try:
            result = self._request.receive()
        except BaseException as error:
            self._error = error
            self._end()
            return
        if isinstance(result, Coroutine):
            self._go_on(result)
        else:
            self._result = result
            self._end()


class Request(Protocol[T_co]):
    """A request of a thread. All its methods run on the loop. `send` returns a future, and `receive` is called once
    that future is done. `receive` returns the result, or a coroutine that continues to the result.

    If the caller is interrupted before the response, the future is cancelled, and `receive` is called as well. If the
    caller is interrupted after that, the coroutine is cancelled, perhaps before its first step, so that none of its
    code runs; then `give_up` is called.
    """

    def send(self) -> "asyncio.Future[Any]": ...

    def receive(self) -> "T_co | Coroutine[Any, Any, T_co]": ...

    def give_up(self) -> None:
        """Clean up after a cancelled coroutine. By default there is nothing to clean up."""
        return


def completed() -> "asyncio.Future[None]":
    """Return a future that is done, for a request that has nothing to send."""
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
