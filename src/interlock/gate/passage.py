"""The passage of a gate: a running migration checks the gate, reports its progress and runs steps through it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from interlock import errors
from interlock.gate.held_lock import HeldLock
from interlock.gate.steps import Effect, Ledger, Precondition

Reason = Literal["behind", "current", "newer", "busy"]


class AsyncPassage:
    """`needed` is True if this replica has to migrate. Otherwise `reason` says why not: the schema is `current`, or it
    is `newer` and compatible, or another replica migrates (`busy`) and the policy is `skip`.

    All methods are for the replica that migrates; on any other replica they raise `GateError`.
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
        """The fencing token of this migration: it grows with each migration of the gate. Send it to other systems with
        your writes."""
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
        """Call `callback(why)` as soon as the gate is lost, on the event loop's thread. The callback must not block."""
        self._held.on_lost(callback)

    def on_renewed(self, callback: Callable[[float], object]) -> None:
        """Call `callback(trusted_until)` after each heartbeat, on the event loop's thread."""
        self._held.on_renewed.append(callback)

    def leave_open(self) -> None:
        """Leave the run open, because a part of this migration may still run. A successor ends that part first."""
        self._held.leave_open = True

    async def end_own_sessions(self) -> None:
        """End every database session that this migration may have left behind, as a successor would.

        Call it after a migration that did not end by itself, or that has a role of its own. Raises PredecessorAlive if
        a session cannot be ended.
        """
        await self._held.end_own_sessions()

    async def report(self, step: str) -> None:
        """Tell waiters and `interlock gate status` how far the migration is."""
        self.check()
        if progress := self._held.progress:
            async with self._loss_on_error():
                await progress.report(step)

    async def protect(self, pid: int) -> None:
        """Register a database session by its server pid. A successor starts only once that session has ended.

        A successor finds sessions that were opened after this replica passed the gate without such a registration.
        """
        if progress := self._held.progress:
            async with self._loss_on_error():
                await progress.protect(pid)

    async def step(self, key: str, effect: Effect, *, precondition: Precondition | None = None) -> Any:
        """Run an effect exactly once on a system that has no transactions; see `interlock.gate.steps`."""
        await self.report(key)
        if self._ledger is None:
            raise errors.GateError(
                f"The gate {self.gate} keeps no records, so it cannot run steps: use a gate with recorded=True.",
                gate=self.gate,
            )
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
