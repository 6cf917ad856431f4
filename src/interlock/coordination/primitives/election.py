"""An election: the holder of the lease is the leader. A term is one grant; after its end the replica waits for its next
term.

The block of a term is cancelled when the term is over: the lease was lost, or `step_down` was called. Neither is an
error, and the loop goes on. The lease is released only after the block has ended.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from interlock.block_body import Body
from interlock.coordination.lease.grant import AsyncGrant
from interlock.errors import LeaseLost
from interlock.stores.capabilities import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine
    from interlock.coordination.lease.lease import LeaseSettings


class AsyncTerm(AsyncGrant):
    """The grant of one term. The block of the term ends without an error when the term is over."""

    __slots__ = ("_over", "_stepping_down")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._stepping_down = False
        self._over = False

    def step_down(self) -> None:
        """Cancel the block of the term. Once the block has ended, the lease is released to the next waiter."""
        self._stepping_down = True
        if self._body:
            self._cancel("stepping down")

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is not held any more, or `step_down` was called."""
        super().check()
        if self._stepping_down:
            raise self.error()

    def is_end_of(self, error: BaseException | None) -> bool:
        """Return True if the error only says that the term is over."""
        return isinstance(error, LeaseLost) and (error.name, error.token) == (self.name, self.token)

    async def __aenter__(self) -> Self:
        self._body = Body()
        if self.ended or self.lost or self._stepping_down:  # before the block was entered
            self._cancel("over")
        else:
            self.on_lost(self._cancel)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        body, self._body = self._body, None
        others_cancelled = await body.end(error) if body else False
        await self.release()
        if others_cancelled:
            raise asyncio.CancelledError
        return self.is_end_of(error) or (self._over and isinstance(error, asyncio.CancelledError))

    def error(self) -> LeaseLost:
        if self._stepping_down and not self.lost:
            return LeaseLost(
                f"The lease {self.name!r} (token {self.token}) is to be released, because step_down() was called: end "
                "the work that it protects.",
                name=self.name,
                token=self.token,
            )
        return super().error()

    def _cancel(self, why: str) -> None:
        if self._body and not self._over:
            self._over = True
            self._body.cancel(why)


class AsyncElection:
    """``async for term in election: async with term: …`` waits for the lead, runs the block while this replica leads,
    and waits again after a loss."""

    def __init__(self, engine: "Callable[[], Engine]", settings: "LeaseSettings") -> None:
        self._engine = engine
        self._settings = settings
        self._term: AsyncTerm | None = None

    @property
    def is_leader(self) -> bool:
        """True while this replica trusts its term, by the clock of this machine. Sends no request."""
        term = self._term
        return term is not None and not term.ended and not term.lost

    async def leader(self) -> HeldLease | None:
        """Returns the current leader, as the store records it."""
        holders = await self._settings.holders(self._engine())
        return holders[0] if holders else None

    def step_down(self) -> bool:
        """End this replica's term; the replica then waits behind all others. Returns False if this replica has no
        term."""
        term = self._term
        if term is None or not self.is_leader:
            return False
        term.step_down()
        return True

    async def run(
        self, lead: Callable[[AsyncTerm], Awaitable[object]], *, deposed: Callable[[], object] | None = None
    ) -> None:
        """Call `lead` in each term, without end. When a term is over, `lead` is cancelled, and then `deposed` is
        called.

        When `lead` returns, its term is over as well.
        """
        async for term in self:
            try:
                async with term:
                    await lead(term)
            finally:
                if deposed:
                    deposed()

    async def __aiter__(self) -> AsyncIterator[AsyncTerm]:
        engine = self._engine()  # one for all terms: it is closed with the root object
        while True:
            term = await self._settings.acquire(engine, asyncio.current_task(), None, AsyncTerm)
            self._term = term
            try:
                yield term
            finally:
                self._term = None
                await term.release()
