"""The passage of a gate: the requests and reports of a migration while it runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from interlock import errors
from interlock.gate.held_lock import HeldLock
from interlock.gate.steps import Effect, Ledger, Precondition

Reason = Literal["behind", "current", "newer", "busy"]


class AsyncPassage:
    """`needed` is True if this replica is to migrate. If not, `reason` is why: the schema is `current`, or `newer` and
    compatible, or another replica is `busy` with it and the policy is to skip.

    All other methods are for the replica that migrates; for the others they raise `GateError`.
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
        """A number that grows with each migration of this gate; writes to other systems can carry it."""
        return self._held.fence

    @property
    def trusted_until(self) -> float:
        """The moment on `interlock.clock.boottime()` up to which the gate is certainly held."""
        return self._held.lock.trusted_until

    @property
    def lost(self) -> bool:
        """True if another replica may hold the gate by now."""
        return self._held.lost

    def check(self) -> None:
        """Raise GateLost if another replica may hold the gate by now."""
        self._held.check()

    def error(self) -> errors.GateLost:
        """The error that `check` raises."""
        return self._held.error()

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Call `callback(why)` as soon as the gate is lost, on the event loop's thread: it must not block."""
        self._held.on_lost(callback)

    def on_renewed(self, callback: Callable[[float], object]) -> None:
        """Call `callback(trusted_until)` after each heartbeat, on the event loop's thread."""
        self._held.on_renewed.append(callback)

    def leave_open(self) -> None:
        """Do not record an end, because a part of this migration may still run: a successor deals with that first."""
        self._held.leave_open = True

    async def end_own_sessions(self) -> None:
        """End every database session that this migration may have left behind, as a successor would.

        For a migration that did not end by itself, or that has a role of its own. Raises PredecessorAlive if a session
        cannot be ended.
        """
        await self._held.end_own_sessions()

    async def report(self, step: str) -> None:
        """Tell waiters and `interlock gate status` how far the migration is."""
        self.check()
        if progress := self._held.progress:
            async with self._loss_on_error():
                await progress.report(step)

    async def protect(self, pid: int) -> None:
        """Register a database session, by its server process, that has to be gone before a successor starts.

        Sessions that were opened after the gate was passed are found without this.
        """
        if progress := self._held.progress:
            async with self._loss_on_error():
                await progress.protect(pid)

    async def step(self, key: str, effect: Effect, *, precondition: Precondition | None = None) -> Any:
        """Run an effect on a target without transactions, exactly once; see `interlock.gate.steps`."""
        await self.report(key)
        if self._ledger is None:
            raise errors.GateError(f"The gate {self.gate} keeps no records, and so no steps.", gate=self.gate)
        async with self._loss_on_error():
            return await self._ledger.run(key, precondition, effect)

    @asynccontextmanager
    async def _loss_on_error(self) -> AsyncIterator[None]:
        """Raise GateLost instead of the store's error, once the gate is lost."""
        try:
            yield
        except errors.StoreError:
            self.check()
            raise

    @property
    def _held(self) -> HeldLock:
        if self._holding is None:
            raise errors.GateError(
                f"This replica is not migrating ({self.reason}): check `passage.needed` first.", gate=self.gate
            )
        return self._holding
