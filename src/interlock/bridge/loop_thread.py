"""An event loop in a thread of its own, for threads without a loop: renewals continue on it while those threads
compute."""

import asyncio
import collections
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self, TypeVar

from interlock import process
from interlock.bridge.calls import CLOSED, ENDING, Call, CoroutineCall, Request, RequestCall
from interlock.bridge.jobs import CallerJob, caller
from interlock.errors import ConfigurationError

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, for any number of calling threads. `close()` ends both."""

    def __init__(
        self, name: str, loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    ) -> None:
        self._pid = process.pid
        self.loop = loop_factory()
        self.pending: set[RequestCall[Any]] = set()
        self._arriving: collections.deque[Call[Any]] = collections.deque()
        self._posted: collections.deque[Callable[[], object]] = collections.deque()
        self._called = False
        self._closing = self._stopped = self._over = False
        self._last: Callable[[], Coroutine[Any, Any, object]] | None = None
        self._error: BaseException | None = None
        self._ending: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        try:
            self._thread.start()
        except BaseException:  # there are too many threads
            self.loop.close()
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop, and wait for it in the calling thread. An interrupt of that thread cancels the
        coroutine."""
        try:
            self.check_caller()
        except ConfigurationError:
            coroutine.close()
            raise
        return self._wait(CoroutineCall(self, coroutine))

    def send(self, request: Request[T]) -> T:
        """Send a request on the loop, and wait for its result in the calling thread. It costs half as much as a
        coroutine."""
        self.check_caller()
        return self._wait(RequestCall(self, request))

    def post(self, function: Callable[[], object]) -> None:
        """Call the function on the loop, before later calls of this thread start. If the loop ends first, the function
        is not called."""
        try:
            self._posted.append(function)
            self._wake()
        except BaseException:  # interrupted, perhaps before the loop was notified: nothing else would notify it
            self._call_soon(self.start_all)
            raise

    def _wait(self, call: Call[T]) -> T:
        job: CallerJob[Any] | None = None
        try:
            self._start_soon(call)
            while (job := call.next_job()) is not None:
                job.run()
        except BaseException:
            self._call_soon(self.start_all)  # the interrupt may have come before the loop was woken
            self._call_soon(call.cancel)
            if job is not None:  # after that: a coroutine that waits for the job is cancelled once, not twice
                self._call_soon(job.abandon)
            while not call.ended:  # further jobs are refused; this ends with the call
                if job := call.next_job():
                    job.refuse()
            raise
        try:
            return call.result()
        except asyncio.CancelledError:
            if self._closing:  # the loop was closed meanwhile
                raise ConfigurationError(CLOSED) from None
            raise

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def is_over(self) -> bool:
        """Return True if the loop starts no more calls."""
        return self._over

    def loop_thread(self) -> Self:
        return self

    def check_caller(self) -> None:
        """Raise an error unless this thread may call the loop."""
        if process.pid != self._pid or self._closing:
            raise ConfigurationError(CLOSED)
        self.check_waiting()

    def check_waiting(self) -> None:
        """Raise an error if a wait for the loop would never end, as in the loop's own thread."""
        if sys.is_finalizing():
            raise ConfigurationError(ENDING)
        if threading.current_thread() is self._thread:
            raise ConfigurationError(
                "A callback cannot wait for the thread that it runs in: let the callback set a flag or an event, "
                "and make this call in another thread."
            )

    def start_all(self) -> None:
        """Start all calls that came since the last time. This method has to be called on the loop."""
        self._called = False  # first: a call that arrives from here on is started below, or wakes the loop again
        while self._arriving and not self._closing:
            self._do_posted()  # a thread may have posted something before it called
            self._arriving.popleft().start()
        self._do_posted()

    def _start_soon(self, call: "Call[Any]") -> None:
        self._arriving.append(call)
        self._wake()
        if self._over:
            self._refuse_all()

    def _wake(self) -> None:
        """Wake the loop. Threads that call at the same time wake it only once, because waking costs more than the call
        itself."""
        if not self._called:
            self._called = True
            self._call_soon(self.start_all)

    def _call_soon(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and the calls that were not started have been refused
            self.loop.call_soon_threadsafe(callback)

    def _do_posted(self) -> None:
        while self._posted and not self._closing:
            try:
                self._posted.popleft()()
            except BaseException:  # no caller gets this error; later calls are started all the same
                self._wake()
                raise

    def _refuse_all(self) -> None:
        """Cancel the calls that came after the end of the loop. Two threads may do it at once."""
        with suppress(IndexError):
            while True:
                self._arriving.popleft().cancel()

    def close(self, last: Callable[[], Coroutine[Any, Any, object]] | None = None) -> None:
        """End everything that runs on the loop, then end the loop. Does nothing in a forked child, which has no loop
        thread.

        `last` runs before that end, when the loop accepts no more calls: a call after `last` could start something that
        is never ended. The loop's thread does all of this by itself, so an interrupt of the calling thread leaves
        nothing behind.
        """
        if process.pid != self._pid or self._closing or sys.is_finalizing():
            return
        self._last = last
        try:
            self._closing = True
            self._call_soon(self._stop)
        except BaseException:  # interrupted, perhaps before the loop was notified: nothing else would notify it
            self._call_soon(self._stop)
            raise
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _stop(self) -> None:
        """Stop the loop, but only once: a second stop would hit `run_until_complete`."""
        if not self._stopped:
            self._stopped = True
            self.loop.stop()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        _open[self.loop] = self
        while not self._closing:
            with suppress(SystemExit, KeyboardInterrupt):  # raised in a task, and passed on to its caller
                self.loop.run_forever()
        self._stopped = True  # `close` may not have called `_stop` yet, and the following must not be stopped
        if self._last is not None:
            try:
                self.loop.run_until_complete(self._finish(self._last))
            except BaseException as error:
                self._error = error
        ended = False
        while not ended:
            with suppress(SystemExit, KeyboardInterrupt):  # as above
                self._ending = self.loop.create_task(self._end_all())
                self.loop.run_until_complete(self._ending)
                ended = True
        self._over = True  # first: later calls see it, and earlier ones are refused below
        self._refuse_all()
        del _open[self.loop]
        self.loop.close()

    async def _finish(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            while self._posted:  # `post` does not wait, and so does not notice that it came too late
                self._posted.popleft()()
        finally:
            await last()

    async def _end_all(self) -> None:
        while True:  # a task may start another while it ends
            for call in list(self.pending):
                call.cancel()
            await asyncio.sleep(0)
            if asyncio.current_task() is not self._ending:
                return  # an interrupt came meanwhile, and another task does this now: it must not be cancelled
            tasks = asyncio.all_tasks() - {self._ending}
            if not tasks and not self.pending:
                return
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


_open: dict[asyncio.AbstractEventLoop, LoopThread] = {}


async def in_caller_until_done(function: Callable[[], T], /) -> T:
    """Like `in_caller`, but a coroutine that is cancelled meanwhile waits until the function has ended, so that no lock
    is released while the function still runs.

    Closing the loop releases all locks, and does not wait for the function, because the function itself may close the
    loop.
    """
    job = CallerJob(function)
    caller.get().put(job)
    ended = asyncio.wrap_future(job.done)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if job.done.cancel():  # it was not started, and never will be
            raise
        thread = _open[asyncio.get_running_loop()]
        while not (job.done.done() or thread.is_closing):  # after an interrupt of the caller, `ended` may never be set
            with suppress(asyncio.CancelledError):
                await asyncio.wait([ended])
        if not ended.cancel() and not ended.cancelled():
            ended.exception()  # marks it as retrieved
        raise
