"""Periodic singletons for callers without an event loop. They run in the thread that calls `run`, or in a thread of
their own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Self

from interlock.bridge import in_caller_until_done
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.primitives.periodic import AsyncPeriodic
from interlock.coordination.sync.grant import Grant
from interlock.errors import InterlockError
from interlock.logs import events

if TYPE_CHECKING:
    from interlock.coordination.sync.root import Interlock

log = events(__name__)

Make = Callable[[Callable[[AsyncGrant], Awaitable[object]]], AsyncPeriodic]


class Periodic:
    """Like `AsyncPeriodic`, with blocking methods. The end of the block waits until the current run has ended."""

    def __init__(self, locks: "Interlock", make: Make, function: Callable[[Grant], object]) -> None:
        self._locks = locks
        self._function = function
        self._periodic = make(self._call)
        self._running: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._failure: InterlockError | None = None

    @property
    def name(self) -> str:
        return self._periodic.name

    @property
    def tick(self) -> datetime | None:
        """The tick that this process runs now; None between two runs."""
        return self._periodic.tick

    def run(self) -> None:
        """Run the function at each tick, in this thread, without end."""
        self._locks.run(self._run(wait_for_database=False))

    def __enter__(self) -> Self:
        """Run the function at each tick, in a thread of its own, until the block ends."""
        self._stopped = False
        self._failure = None
        self._thread = threading.Thread(target=self._run_until_stopped, name=f"interlock every {self.name}")
        try:
            self._thread.start()
        except BaseException:  # interrupted, perhaps when it ran already: no end of a block will stop it
            self._locks.run(self._stop())
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        thread, self._thread = self._thread, None
        assert thread is not None
        self._locks.run(self._stop())
        thread.join()
        if self._failure is not None:
            raise self._failure

    def _run_until_stopped(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                self._locks.run(self._run(wait_for_database=True))
        except InterlockError as error:
            self._failure = error
            log.error("periodic.ended", extra={"lease": self.name, "why": str(error)})

    async def _run(self, *, wait_for_database: bool) -> None:
        if self._stopped:
            return
        self._running = asyncio.current_task()
        try:
            await self._periodic.run(wait_for_database=wait_for_database)
        finally:
            self._running = None

    async def _stop(self) -> None:
        self._stopped = True
        if self._running is not None:
            self._running.cancel()

    async def _call(self, grant: AsyncGrant) -> object:
        face = Grant(self._locks.loop_thread(), grant)
        return await in_caller_until_done(lambda: self._function(face))
