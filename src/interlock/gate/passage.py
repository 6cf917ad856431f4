"""Being through the gate: what a migration can ask and tell while it runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from interlock import errors
from interlock.gate.held_lock import HeldLock
from interlock.gate.steps import Effect, Ledger, Precondition

Reason = Literal["behind", "current", "newer", "busy"]


class AsyncPassage:
    """`needed` tells whether this replica is to migrate. If not, `reason` says why: the schema is `current`, or `newer`
    and compatible, or another replica is `busy` with it and the policy was to skip.

    Everything else is for the replica that migrates; for the others it raises `GateError`.
    """

    def __init__(
        self, gate: str, reason: Reason, holding: HeldLock | None = None, ledger: Ledger | None = None
    ) -> None:
        self.gate = gate
        self.reason = reason
        self._holding = holding
        self._ledger = ledger

    @property
    def needed(self) -> bool:
        return self._holding is not None

    @property
    def fence(self) -> int:
        """Grows with each migration of this gate; what is written elsewhere can carry it."""
        return self._held.fence

    @property
    def trusted_until(self) -> float:
        """The moment on `interlock.clock.boottime()` up to which the gate is certainly held."""
        return self._held.lock.trusted_until

    @property
    def lost(self) -> bool:
        """Whether another replica may hold the gate by now."""
        return self._held.lost

    def check(self) -> None:
        """Raise GateLost if another replica may hold the gate by now."""
        self._held.check()

    def error(self) -> errors.GateLost:
        """The error that `check` raises."""
        return self._held.error()

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Call `callback(why)` as soon as the gate is lost, on the event loop's thread: it must not block."""
        self._held.tell_when_lost(callback)

    def on_renewed(self, callback: Callable[[float], object]) -> None:
        """Call `callback(trusted_until)` after each heartbeat, on the event loop's thread."""
        self._held.on_renewed.append(callback)

    def leave_open(self) -> None:
        """Do not record an end, because something of this migration may live on: a successor sees to that first."""
        self._held.leave_open = True

    async def end_own_sessions(self) -> None:
        """End every database session that this migration may have left behind, as a successor would.

        For a migration that did not end of its own will, or whose role nobody else uses. Raises PredecessorAlive if
        some cannot be ended.
        """
        await self._held.end_own_sessions()

    async def report(self, step: str) -> None:
        """Tell waiters and `interlock gate status` how far the migration is."""
        self.check()
        if progress := self._held.progress:
            async with self._losing():
                await progress.report(step)

    async def protect(self, pid: int) -> None:
        """Name a database session, by its server process, that a successor has to see gone before it starts.

        Sessions that were opened after the gate was passed are found without this.
        """
        if progress := self._held.progress:
            async with self._losing():
                await progress.protect(pid)

    async def step(self, key: str, effect: Effect, *, precondition: Precondition | None = None) -> Any:
        """Run an effect on a target without transactions, once and for all; see `interlock.gate.steps`."""
        await self.report(key)
        if self._ledger is None:
            raise errors.GateError(f"The gate {self.gate} keeps no records, and so no steps.", gate=self.gate)
        async with self._losing():
            return await self._ledger.run(key, precondition, effect)

    @asynccontextmanager
    async def _losing(self) -> AsyncIterator[None]:
        """A database that does not answer any more is a lost gate, once it is that."""
        try:
            yield
        except errors.StoreError:
            self.check()
            raise

    @property
    def _held(self) -> HeldLock:
        if self._holding is None:
            raise errors.GateError(
                f"This replica is not migrating ({self.reason}): ask `passage.needed` first.", gate=self.gate
            )
        return self._holding
