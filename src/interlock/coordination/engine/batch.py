"""Requests of one process that share statements.

What arrives while a statement is under way goes together in the next one, so under load one round trip, and one wait
for the disk, serves many. Otherwise a request waits for the end of this turn of the event loop, for others that come in
it.
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

_ASKED_ONE_BY_ONE = (errors.StatementFailed, errors.LockNotAvailable)
"""After these of a batch each is sent alone: one bad request must not cost the others."""


class Batcher(Generic[Request, Answer]):
    """`send` takes a batch and answers in its order.

    Whoever waits for an answer may go away: then the answer goes to `orphaned`, or the error to `failed`. A request
    whose caller went away before it was sent is left out, unless `always`.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Request]], Awaitable[Sequence[Answer]]],
        orphaned: Callable[[Request, Answer, float], None],
        failed: Callable[[Request, Exception], None],
        *,
        send_abandoned: bool = False,
    ) -> None:
        self._send = send
        self._orphaned = orphaned
        self._failed = failed
        self._always = send_abandoned
        self._queue: list[tuple[Request, asyncio.Future[tuple[Answer, float]]]] = []
        self._sent: list[tuple[Request, asyncio.Future[tuple[Answer, float]]]] = []
        self._is_running = False
        self._worker: asyncio.Task[None] | None = None

    def submit(self, request: Request) -> "asyncio.Future[tuple[Answer, float]]":
        """The answer, and the moment on `boottime()` before it was asked for."""
        future: asyncio.Future[tuple[Answer, float]] = asyncio.get_running_loop().create_future()
        self.submit_for(request, future)
        return future

    def submit_for(self, request: Request, future: "asyncio.Future[tuple[Answer, float]]") -> None:
        """The same for somebody who waits already."""
        self._queue.append((request, future))
        if not self._is_running:
            try:
                self._begin()
            except BaseException:  # an interrupt, or the stack is full: whoever comes next, or drains it, begins anew
                future.cancel()
                raise

    def post(self, request: Request) -> None:
        """Nobody waits for the answer."""
        assert self._always
        self.submit(request).cancel()

    def fail_all(self, error: Exception) -> None:
        """Whoever waits gets the error now; what is answered later finds nobody."""
        for _, future in [*self._sent, *self._queue]:
            _fail(future, error)

    async def drain(self) -> None:
        """Until everything has been sent and answered."""
        while self._is_running or self._queue:
            if not self._is_running:  # whoever should have begun could not
                self._begin()
            assert self._worker is not None
            await asyncio.wait([self._worker])

    def _begin(self) -> None:
        """With the next turn of the event loop, when all who are ready now have put in theirs."""
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
                if not self._always:
                    batch = [entry for entry in batch if not entry[1].done()]
                if batch:
                    self._sent = batch
                    await self._serve(batch)
                    await asyncio.sleep(0)  # tasks that were just answered may be back at once: then all share the next
        except BaseException:  # the event loop ends
            self._cancel_all()
            raise
        finally:
            self._sent = []
            self._is_running = False

    def _ended(self, worker: "asyncio.Task[None]") -> None:
        """Cancelled before its first turn, it has not even begun, and could not say that it has ended."""
        if self._is_running and worker is self._worker:
            self._is_running = False
            self._cancel_all()

    def _cancel_all(self) -> None:
        for _, future in [*self._sent, *self._queue]:
            future.cancel()

    async def _serve(self, batch: "list[tuple[Request, asyncio.Future[tuple[Answer, float]]]]") -> None:
        sent_at = boottime()
        try:
            answers = await self._send([request for request, _ in batch])
        except _ASKED_ONE_BY_ONE as error:
            if len(batch) == 1:
                self._fail(batch, error)
                return
            for entry in batch:
                await self._serve([entry])
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
            self._orphaned(request, answer, sent_at)
        else:
            future.set_result((answer, sent_at))

    def _fail(self, batch: "list[tuple[Request, asyncio.Future[tuple[Answer, float]]]]", error: Exception) -> None:
        for request, future in batch:
            if future.done():
                self._failed(request, error)
            else:
                _fail(future, error)


def _fail(future: "asyncio.Future[tuple[Answer, float]]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # seen: whoever waited may have gone, and need not be warned of
