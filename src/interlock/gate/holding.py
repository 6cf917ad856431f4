"""Holding the gate's lock: the heartbeat, the loss of it, and giving it back."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from interlock import errors
from interlock.clock import boottime
from interlock.gate.lock import LockSession
from interlock.gate.progress import Progress

log = logging.getLogger(__name__)


class Holding:
    """Beats from the moment it is made, which is right after the lock was taken, until `finish` or `give_back`."""

    def __init__(self, lock: LockSession) -> None:
        self.lock = lock
        self.progress: Progress | None = None
        self.on_beat: list[Callable[[float], object]] = []
        self._on_lost: list[Callable[[str], object]] = []
        self.leave_open = False
        self._why_lost: str | None = None
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
            raise self._gate_lost()

    def tell_when_lost(self, callback: Callable[[str], object]) -> None:
        """At once, if it is lost already."""
        self._on_lost.append(callback)
        if self._why_lost is not None:
            callback(self._why_lost)

    async def finish(self, failure: BaseException | None) -> None:
        """Record how it ended and give the lock back; raises GateLost if it was not held to the end."""
        await self._stop_keeping()
        try:
            if self.lost:
                raise self._gate_lost() from failure
            if self.progress and not self.leave_open:
                await self.progress.end("failed" if failure else "done", _recordable(failure))
        except errors.StoreError as error:
            self._why_lost = str(error)
            raise self._gate_lost() from failure or error
        finally:
            await self.lock.close()

    async def give_back(self) -> None:
        """There is nothing to record."""
        await self._stop_keeping()
        await self.lock.close()

    async def _stop_keeping(self) -> None:
        self._keeper.cancel()
        with suppress(asyncio.CancelledError):
            await self._keeper

    async def _keep(self) -> None:
        why = await self.lock.keep(self._beaten)
        self._why_lost = why
        log.error("gate.lost", extra={"gate": self.gate, "why": why})
        for callback in self._on_lost:
            callback(why)

    async def _beaten(self) -> None:
        for callback in self.on_beat:
            callback(self.lock.trusted_until)
        if self.progress:
            await self.progress.heartbeat()

    def _gate_lost(self) -> errors.GateLost:
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
