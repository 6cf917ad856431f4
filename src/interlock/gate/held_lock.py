"""Holding the gate's lock: the heartbeat, the loss of it, and giving it back.

Two sessions: the lock's, which only beats, and the records', which writes rows and shows that this process lives. The
end of either is the loss of the gate. Whichever is left is kept until the migration has stopped: the lock keeps others
out, and the records' session makes them wait.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from interlock import errors
from interlock.clock import boottime
from interlock.gate import predecessor
from interlock.gate.lock_session import LockSession
from interlock.gate.progress import Progress, retry_while_locked
from interlock.logs import events

log = events(__name__)

T = TypeVar("T")


class HeldLock:
    """Beats from the moment it is made, which is right after the lock was taken, until `finish` or `give_back`."""

    def __init__(self, lock: LockSession) -> None:
        self.lock = lock
        self.progress: Progress | None = None
        self.on_renewed: list[Callable[[float], object]] = []
        self.leave_open = False
        self._on_lost: list[Callable[[str], object]] = []
        self._why_lost: str | None = None
        self._closing = False
        self._keeper = asyncio.create_task(self._keep())

    @property
    def gate(self) -> str:
        return str(self.lock.name)

    @property
    def fence(self) -> int:
        return self.progress.fence if self.progress else 0

    @property
    def lost(self) -> bool:
        """Asks the clock as well, so that the answer is right even after the process was stopped for a while."""
        return self._why_lost is not None or boottime() >= self.lock.trusted_until

    def check(self) -> None:
        if self.lost:
            raise self.error()

    def tell_when_lost(self, callback: Callable[[str], object]) -> None:
        """At once, if it is lost already."""
        self._on_lost.append(callback)
        if self._why_lost is not None:
            callback(self._why_lost)

    def record_on(self, progress: Progress) -> None:
        self.progress = progress
        progress.session.on_end(lambda: self._lose("the server ended the session of the gate's records"))

    async def end_own_sessions(self) -> None:
        """The migration has left something running in the server: see it off while we still hold the lock."""
        if self.progress is None:
            return
        leftovers = predecessor.Leftovers(self.fence, self.progress, self.lock)
        if await leftovers.find():
            await leftovers.settle_and_end(who="The migration has ended and")

    async def finish(self, failure: BaseException | None) -> None:
        """Record how it ended and give the lock back; raises GateLost if it was not held to the end."""
        try:
            self.check()
            if self.progress and not self.leave_open:
                await self._record_end(self.progress, failure)
        except errors.StoreError as error:
            self._why_lost = self._why_lost or str(error)
            raise self.error() from failure or error
        except errors.GateLost as error:
            raise error from failure
        finally:
            await self.give_back()

    async def give_back(self) -> None:
        """The lock first: whoever gets it next finds the run as we left it."""
        self._closing = True
        self._keeper.cancel()
        try:
            await asyncio.wait([self._keeper])
        finally:
            try:
                await self.lock.close()
            finally:
                if self.progress:
                    await self.progress.session.close()

    async def _record_end(self, progress: Progress, failure: BaseException | None) -> None:
        outcome = ("failed" if failure else "done", _recordable(failure))
        await retry_while_locked(lambda: progress.end(*outcome), self.check)

    async def _keep(self) -> None:
        try:
            why = await self.lock.run_heartbeats(self._beaten)
        except asyncio.CancelledError:
            if not self._closing:  # the event loop ends under us: leave no session that could seem to live
                self._hang_up()
            raise
        except Exception as error:
            log.exception("gate.heartbeat_failed", extra={"gate": self.gate})
            why = f"the heartbeat broke: {type(error).__name__}"
        self._lose(why)
        await self.lock.session.abort()
        if self.progress and not self.fence:  # nothing has begun that it would have to show: let nothing begin
            await self.progress.session.abort()

    def _hang_up(self) -> None:
        self.lock.session.hang_up()
        if self.progress:
            self.progress.session.hang_up()

    def _lose(self, why: str) -> None:
        if self._closing or self._why_lost is not None:
            return
        self._why_lost = why
        log.error("gate.lost", extra={"gate": self.gate, "why": why})
        self._tell(self._on_lost, why)

    async def _beaten(self) -> None:
        self._tell(self.on_renewed, self.lock.trusted_until)
        if self.fence and self.progress and not self.progress.session.is_closed:
            try:
                async with asyncio.timeout(self.lock.timing.heartbeat):
                    await self.progress.heartbeat()
            except TimeoutError:
                log.warning("gate.heartbeat_not_recorded", extra={"gate": self.gate, "why": "it took too long"})
            except errors.ConnectionLost as error:  # of the records: the lock is kept until the migration has stopped
                self._lose(str(error))

    def _tell(self, callbacks: list[Callable[[T], object]], fact: T) -> None:
        for callback in callbacks:
            try:
                callback(fact)
            except Exception:
                log.exception("gate.callback_failed", extra={"gate": self.gate})

    def error(self) -> errors.GateLost:
        why = self._why_lost or "this process was stopped for too long"
        return errors.GateLost(
            f"The gate {self.gate} was lost while migrating ({why.rstrip('.')}): "
            "the migration was stopped, run it again.",
            gate=self.gate,
        )


def _recordable(failure: BaseException | None) -> str | None:
    """Our own words may be kept; other people's errors may quote a password, so only their kind is."""
    if failure is None:
        return None
    return str(failure) if isinstance(failure, errors.InterlockError) else type(failure).__name__
