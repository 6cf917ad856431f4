"""The gate's lock while it is held: its heartbeat, its loss and its release.

There are two sessions. The lock's session only sends heartbeats. The records' session writes rows and shows that this
process lives. If one of them ends, the gate is lost. The other session is kept until the migration has stopped: the
lock's session keeps other replicas out, and the records' session makes them wait.
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
    """A held lock, created directly after the lock was taken. It sends heartbeats until `finish` or `release`."""

    def __init__(self, lock: LockSession) -> None:
        self.lock = lock
        self.progress: Progress | None = None
        self.on_renewed: list[Callable[[float], object]] = []
        self.leave_open = False
        self._loss_callbacks: list[Callable[[str], object]] = []
        self._why_lost: str | None = None
        self._closing = False
        self._heartbeats = asyncio.create_task(self._run_heartbeats())

    @property
    def gate(self) -> str:
        return str(self.lock.name)

    @property
    def fence(self) -> int:
        return self.progress.fence if self.progress else 0

    @property
    def lost(self) -> bool:
        """True once another replica may hold the gate. It compares the clock, so a suspended process sees the loss."""
        return self._why_lost is not None or boottime() >= self.lock.trusted_until

    def check(self) -> None:
        if self.lost:
            raise self.error()

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Register a function that is called when the gate is lost, or at once if the gate is lost already."""
        self._loss_callbacks.append(callback)
        if self._why_lost is not None:
            callback(self._why_lost)

    def record_on(self, progress: Progress) -> None:
        self.progress = progress
        progress.session.on_end(lambda: self._lose("the server ended the session of the gate's records"))

    async def end_own_sessions(self) -> None:
        """End the sessions that the migration has left in the server, while the lock is still held."""
        if self.progress is None:
            return
        leftovers = predecessor.Leftovers(self.fence, self.progress, self.lock)
        if await leftovers.find():
            await leftovers.end_after_pause(subject="The migration has ended and")

    async def finish(self, failure: BaseException | None) -> None:
        """Record the result and release the lock. Raises GateLost if the lock was not held to the end."""
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
            await self.release()

    async def release(self) -> None:
        """Close the lock's session, then the records' session. The next holder finds the run as it was recorded."""
        self._closing = True
        self._heartbeats.cancel()
        try:
            await asyncio.wait([self._heartbeats])
        finally:
            try:
                await self.lock.close()
            finally:
                if self.progress:
                    await self.progress.session.close()

    async def _record_end(self, progress: Progress, failure: BaseException | None) -> None:
        outcome = ("failed" if failure else "done", _recordable(failure))
        await retry_while_locked(lambda: progress.end(*outcome), self.check)

    async def _run_heartbeats(self) -> None:
        try:
            why = await self.lock.run_heartbeats(self._on_heartbeat)
        except asyncio.CancelledError:
            if not self._closing:  # the event loop ends: leave no session that would seem alive
                self._hang_up()
            raise
        except Exception as error:
            log.exception("gate.heartbeat_failed", extra={"gate": self.gate})
            why = f"the heartbeat failed: {type(error).__name__}"
        self._lose(why)
        await self.lock.session.abort()
        if self.progress and not self.fence:  # no run has begun, and none may begin any more
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
        self._call(self._loss_callbacks, why)

    async def _on_heartbeat(self) -> None:
        self._call(self.on_renewed, self.lock.trusted_until)
        if self.fence and self.progress and not self.progress.session.is_closed:
            try:
                async with asyncio.timeout(self.lock.timing.heartbeat):
                    await self.progress.heartbeat()
            except TimeoutError:
                log.warning("gate.heartbeat_not_recorded", extra={"gate": self.gate, "why": "it took too long"})
            except errors.ConnectionLost as error:  # of the records: the lock is kept until the migration has stopped
                self._lose(str(error))

    def _call(self, callbacks: list[Callable[[T], object]], fact: T) -> None:
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
    """Returns the text of an Interlock error. Of any other error only the class: its text may quote a password."""
    if failure is None:
        return None
    return str(failure) if isinstance(failure, errors.InterlockError) else type(failure).__name__
