"""What threads wait for while the loop works on it: a coroutine, or a question that is mostly answered at once."""

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

_UNHEARD = 1.0
"""Seconds. A signal that came just before a thread began to wait, or to another thread, does not wake it."""

CLOSED = "This is closed, or was opened by the process that forked us: open it anew."
ENDING = "The interpreter ends, and the thread that works for this one has stopped: close it before."


class Call(Generic[T]):
    """Something on the loop that a thread waits for. `jobs` is what it asks of its caller; None there says that it has
    ended.

    `ended` says the same, and stays: the caller may be interrupted just when it has taken that None.
    """

    def __init__(self, thread: "LoopThread") -> None:
        self.jobs: Jobs = queue.SimpleQueue()
        self.ended = False
        self._thread = thread
        self._context = contextvars.copy_context()
        self._context.run(caller.set, self.jobs)
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        """On the loop. What goes wrong here is for the caller."""
        raise NotImplementedError

    def cancel(self) -> None:
        if self._task:  # once it has had its first turn: what gives something back has begun then
            self._thread.loop.call_soon(self._task.cancel)
        elif not self.ended:  # it was not even started
            self._refuse()
            self._end()

    def next_job(self) -> CallerJob[Any] | None:
        """For the thread that waits. Python acts on a signal once that thread runs: it does, now and then."""
        while True:
            try:
                return self.jobs.get(timeout=_UNHEARD)
            except queue.Empty:
                if sys.is_finalizing():
                    raise ConfigurationError(ENDING) from None
                if self._thread.is_over and self._task is None:  # we were interrupted before the loop knew of this
                    self.cancel()

    def result(self) -> T:
        if self._task is None:
            raise ConfigurationError(CLOSED)
        return self._task.result()

    def _refuse(self) -> None:
        """It will never be started."""

    def _go_on(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._task = self._thread.loop.create_task(coroutine, context=self._context)
        self._task.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self.ended = True
        self.jobs.put(None)


class CoroutineCall(Call[T]):
    """A coroutine."""

    def __init__(self, thread: "LoopThread", coroutine: Coroutine[Any, Any, T]) -> None:
        super().__init__(thread)
        self._coroutine = coroutine

    def start(self) -> None:
        if not self.ended:  # else the caller was interrupted, and has gone
            self._go_on(self._coroutine)

    def _refuse(self) -> None:
        self._coroutine.close()


class RequestCall(Call[T]):
    """A question whose answer mostly is all there is to it: a task would cost more than the question itself."""

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
            self._response = self._context.run(self._request.ask)
        except BaseException as error:
            self._error = error
            self._end()
        else:
            self._thread.asking.add(self)
            self._response.add_done_callback(self._answer, context=self._context)

    def cancel(self) -> None:
        if self._task is not None or self._response is None:
            super().cancel()
        elif not self.ended and not self._response.cancel():  # it has been answered, and nobody has seen that yet
            self._thread.loop.call_soon(self.cancel)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result if self._response is not None and self._task is None else super().result()

    def _end(self) -> None:
        if self._task is not None and self._task.cancelled():
            self._request.give_up()
        super()._end()

    def _answer(self, asked: "asyncio.Future[Any]") -> None:
        self._thread.asking.discard(self)
        try:
            result = self._request.answer()
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
    """All on the loop: `ask` begins, and `answer` is called once its future is done. It gives the result, or a
    coroutine that goes on to it. If the caller is interrupted the future is cancelled, and answered as well; or the
    coroutine is, which may not have begun: then nothing of it will run, and `give_up` is what there is instead."""

    def ask(self) -> "asyncio.Future[Any]": ...

    def answer(self) -> "T_co | Coroutine[Any, Any, T_co]": ...

    def give_up(self) -> None:
        """There is nothing to see to, unless somebody says so."""
        return


def completed() -> "asyncio.Future[None]":
    """For a question whose answer is there without asking."""
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
