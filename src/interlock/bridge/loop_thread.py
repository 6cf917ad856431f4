"""An event loop in a thread of its own, for threads that have none: heartbeats go on there while they compute."""

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
        self.asking: set[RequestCall[Any]] = set()
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
        except BaseException:  # there are too many
            self.loop.close()
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait in the calling thread for the coroutine. If that thread is interrupted, the coroutine is cancelled."""
        try:
            self.check_caller()
        except ConfigurationError:
            coroutine.close()
            raise
        return self._wait(CoroutineCall(self, coroutine))

    def ask(self, request: Request[T]) -> T:
        """The same for a question, at half the price."""
        self.check_caller()
        return self._wait(RequestCall(self, request))

    def post(self, function: Callable[[], object]) -> None:
        """Call it on the loop before whatever is asked from here afterwards. Not at all, if the loop ends before."""
        try:
            self._posted.append(function)
            self._wake()
        except BaseException:  # we were interrupted, perhaps before we had called it: nobody else would
            self._call_soon(self.start_all)
            raise

    def _wait(self, call: Call[T]) -> T:
        job: CallerJob[Any] | None = None
        try:
            self._start_soon(call)
            while (job := call.next_job()) is not None:
                job.run()
        except BaseException:
            self._call_soon(self.start_all)  # we may have been interrupted before we had called it
            self._call_soon(call.cancel)
            if job is not None:  # after that: who stays until it has ended is cancelled once, not twice
                self._call_soon(job.abandon)
            while not call.ended:  # what it still asks for is not done; once it ends, so do we
                if job := call.next_job():
                    job.refuse()
            raise
        try:
            return call.result()
        except asyncio.CancelledError:
            if self._closing:  # under it
                raise ConfigurationError(CLOSED) from None
            raise

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def is_over(self) -> bool:
        """Whether nothing is begun on the loop any more."""
        return self._over

    def loop_thread(self) -> Self:
        return self

    def check_caller(self) -> None:
        """Whether somebody in this thread may ask the loop for something."""
        if process.pid != self._pid or self._closing:
            raise ConfigurationError(CLOSED)
        self.check_waiting()

    def check_waiting(self) -> None:
        """Whether it may wait for the loop: not where it would wait for itself, for ever."""
        if sys.is_finalizing():
            raise ConfigurationError(ENDING)
        if threading.current_thread() is self._thread:
            raise ConfigurationError(
                "A callback cannot wait for the thread that it runs in: let it set a flag or an event, "
                "and do this in a thread of yours."
            )

    def start_all(self) -> None:
        """On the loop: all who have called since it last came to this."""
        self._called = False  # first: who arrives from here on is taken below, or wakes us again
        while self._arriving and not self._closing:
            self._do_posted()  # among them what the thread of the next had posted before it called
            self._arriving.popleft().start()
        self._do_posted()

    def _start_soon(self, call: "Call[Any]") -> None:
        self._arriving.append(call)
        self._wake()
        if self._over:
            self._refuse_all()

    def _wake(self) -> None:
        """Threads that call at the same time wake the loop once: that costs more than the call itself."""
        if not self._called:
            self._called = True
            self._call_soon(self.start_all)

    def _call_soon(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and whoever had not been started was refused before that
            self.loop.call_soon_threadsafe(callback)

    def _do_posted(self) -> None:
        while self._posted and not self._closing:
            try:
                self._posted.popleft()()
            except BaseException:  # it is for nobody; whoever has called since is started all the same
                self._wake()
                raise

    def _refuse_all(self) -> None:
        """Who comes when nobody works any more. Two threads may do it at once."""
        with suppress(IndexError):
            while True:
                self._arriving.popleft().cancel()

    def close(self, last: Callable[[], Coroutine[Any, Any, object]] | None = None) -> None:
        """Ends whatever still runs on the loop, then the loop. In a forked child there is neither.

        `last` is run before that, when nobody can come any more: whoever came between it and the end would begin
        something that nobody ends. The thread does all of that by itself, so an interrupt here leaves nothing behind.
        """
        if process.pid != self._pid or self._closing or sys.is_finalizing():
            return
        self._last = last
        try:
            self._closing = True
            self._call_soon(self._stop)
        except BaseException:  # we were interrupted, perhaps before we had called it: nobody else would
            self._call_soon(self._stop)
            raise
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _stop(self) -> None:
        """Once: what runs until it is complete is not to be stopped."""
        if not self._stopped:
            self._stopped = True
            self.loop.stop()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        _open[self.loop] = self
        while not self._closing:
            with suppress(SystemExit, KeyboardInterrupt):  # raised in a task: they are for its caller, who is told
                self.loop.run_forever()
        self._stopped = True  # whoever closes may not have come to that yet; and what follows is to run to its end
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
        self._over = True  # first: who arrives from here on sees it, and whoever came before is refused below
        self._refuse_all()
        del _open[self.loop]
        self.loop.close()

    async def _finish(self, last: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            while self._posted:  # by somebody who does not wait to see whether it came too late
                self._posted.popleft()()
        finally:
            await last()

    async def _end_all(self) -> None:
        while True:  # what ends may begin something
            for call in list(self.asking):
                call.cancel()
            await asyncio.sleep(0)
            if asyncio.current_task() is not self._ending:
                return  # an interrupt came in the middle, and another does this now, which must not be ended
            tasks = asyncio.all_tasks() - {self._ending}
            if not tasks and not self.asking:
                return
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


_open: dict[asyncio.AbstractEventLoop, LoopThread] = {}


async def in_caller_until_done(function: Callable[[], T], /) -> T:
    """As `in_caller`; who is cancelled while it runs stays until it has ended: nobody gives back a lock under it.

    Whoever closes the loop gives everything back by that, and is not kept waiting: it may be that very function.
    """
    job = CallerJob(function)
    caller.get().put(job)
    ended = asyncio.wrap_future(job.done)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if job.done.cancel():  # it was not begun, and never will be
            raise
        thread = _open[asyncio.get_running_loop()]
        while not (job.done.done() or thread.is_closing):  # an interrupt may have kept the caller from telling `ended`
            with suppress(asyncio.CancelledError):
                await asyncio.wait([ended])
        if not ended.cancel() and not ended.cancelled():
            ended.exception()  # seen: nobody waits for it any more
        raise
