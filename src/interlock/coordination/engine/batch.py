"""Requests of one process that share statements.

Requests that arrive while a statement runs are sent together in the next statement. So under load one round trip, and
one wait for the disk, serves many requests. Without load, a request is sent at the next turn of the event loop,
together with all requests that arrive before that turn.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, cast

from interlock import errors
from interlock.clock import boottime
from interlock.stores.leases import PartlyFailed

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_LARGEST = 1000

_RETRIED_ONE_BY_ONE = (errors.StatementFailed, errors.LockNotAvailable)
"""If a batch fails with one of these errors, each of its requests is sent again alone: one bad request must not fail
the others."""


class Batcher(Generic[Request, Answer]):
    """Sends batches with `send`, which returns the answers in the order of the requests.

    A caller may stop waiting: then the answer goes to `on_unclaimed`, or the error to `on_failed`. If a caller stops
    waiting before its request was sent, the request is not sent, unless `send_abandoned` is set.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Request]], Awaitable[Sequence[Answer]]],
        on_unclaimed: Callable[[Request, Answer, float], None],
        on_failed: Callable[[Request, Exception], None],
        *,
        send_abandoned: bool = False,
    ) -> None:
        self._send = send
        self._on_unclaimed = on_unclaimed
        self._on_failed = on_failed
        self._send_abandoned = send_abandoned
        self._queue: list[tuple[Request, asyncio.Future[tuple[Answer, float]]]] = []
        self._sent: list[tuple[Request, asyncio.Future[tuple[Answer, float]]]] = []
        self._is_running = False
        self._worker: asyncio.Task[None] | None = None

    def submit(self, request: Request) -> "asyncio.Future[tuple[Answer, float]]":
        """Send a request. The future's result is the answer, and a moment on `boottime()` just before the request was
        sent."""
        future: asyncio.Future[tuple[Answer, float]] = asyncio.get_running_loop().create_future()
        self.submit_for(request, future)
        return future

    def submit_for(self, request: Request, future: "asyncio.Future[tuple[Answer, float]]") -> None:
        """Send a request whose caller already waits for this future."""
        self._queue.append((request, future))
        if not self._is_running:
            try:
                self._start()
            except BaseException:  # an interrupt, or the stack is full: the next `submit` or `drain` starts the worker
                future.cancel()
                raise

    def post(self, request: Request) -> None:
        """Send a request whose answer no caller waits for."""
        assert self._send_abandoned
        self.submit(request).cancel()

    def fail_all(self, error: Exception) -> None:
        """Raise the error in all callers that wait. Answers that come later count as unclaimed."""
        for _, future in [*self._sent, *self._queue]:
            _fail(future, error)

    async def drain(self) -> None:
        """Wait until all requests have been sent and answered."""
        while self._is_running or self._queue:
            if not self._is_running:  # a `submit` could not start the worker
                self._start()
            assert self._worker is not None
            await asyncio.wait([self._worker])

    def _start(self) -> None:
        """Start the worker. It begins at the next turn of the event loop, after all tasks that are ready now."""
        self._is_running = True
        try:
            self._worker = asyncio.get_running_loop().create_task(self._work())
            self._worker.add_done_callback(self._ended)
        except BaseException:
            self._is_running = False
            raise

    async def _work(self) -> None:
        try:
            while self._queue:
                batch = self._queue[:_LARGEST]
                del self._queue[:_LARGEST]
                if not self._send_abandoned:
                    batch = [entry for entry in batch if not entry[1].done()]
                if batch:
                    self._sent = batch
                    await self._send_batch(batch)
                    await asyncio.sleep(
                        0
                    )  # tasks that got their answers may send more at once: all share the next batch
        except BaseException:  # the event loop ends
            self._cancel_all()
            raise
        finally:
            self._sent = []
            self._is_running = False

    def _ended(self, worker: "asyncio.Task[None]") -> None:
        """Do what the `finally` of the worker would have done, if the worker was cancelled before its first step."""
        if self._is_running and worker is self._worker:
            self._is_running = False
            self._cancel_all()

    def _cancel_all(self) -> None:
        for _, future in [*self._sent, *self._queue]:
            future.cancel()

    async def _send_batch(self, batch: "list[tuple[Request, asyncio.Future[tuple[Answer, float]]]]") -> None:
        sent_at = boottime()
        try:
            answers = await self._send([request for request, _ in batch])
        except _RETRIED_ONE_BY_ONE as error:
            if len(batch) == 1:
                self._fail(batch, error)
                return
            for entry in batch:
                await self._send_batch([entry])
        except PartlyFailed as partly:
            for entry, outcome in zip(batch, partly.outcomes, strict=True):
                if isinstance(outcome, Exception):
                    self._fail([entry], outcome)
                else:
                    self._answer(entry, cast(Answer, outcome), sent_at)
        except Exception as error:
            self._fail(batch, error)
        else:
            for entry, answer in zip(batch, answers, strict=True):
                self._answer(entry, answer, sent_at)

    def _answer(
        self, entry: "tuple[Request, asyncio.Future[tuple[Answer, float]]]", answer: Answer, sent_at: float
    ) -> None:
        request, future = entry
        if future.done():
            self._on_unclaimed(request, answer, sent_at)
        else:
            future.set_result((answer, sent_at))

    def _fail(self, batch: "list[tuple[Request, asyncio.Future[tuple[Answer, float]]]]", error: Exception) -> None:
        for request, future in batch:
            if future.done():
                self._on_failed(request, error)
            else:
                _fail(future, error)


def _fail(future: "asyncio.Future[tuple[Answer, float]]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as retrieved: a caller that has gone must not cause a warning
