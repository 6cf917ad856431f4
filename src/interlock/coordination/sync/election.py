"""Elections for callers without an event loop. A thread cannot be cancelled: call `check()` between steps."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from interlock.bridge import LoopThread
from interlock.coordination.primitives.election import AsyncTerm
from interlock.coordination.sync.grant import Grant
from interlock.stores.capabilities import HeldLease

if TYPE_CHECKING:
    from interlock.coordination.sync.lease import Lease


class Term(Grant):
    """Like `AsyncTerm`, with blocking methods. A `LeaseLost` of this term ends its block without an error."""

    __slots__ = ("granted",)

    def __init__(self, thread: LoopThread, term: AsyncTerm) -> None:
        super().__init__(thread, term)
        self.granted = term

    def step_down(self) -> None:
        """Make `check()` raise from now on. When the block has ended, the lease goes to the next waiter."""
        self.granted.step_down()

    def __enter__(self) -> "Term":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        try:
            self.release()
        except BaseException:
            self.drop()
            raise
        return self.granted.is_end_of(error)


class Election:
    """``for term in election: with term: …``; see `AsyncElection`. One thread iterates; other threads may call the
    methods."""

    def __init__(self, lease: "Lease") -> None:
        self._lease = lease
        self._term: AsyncTerm | None = None

    @property
    def is_leader(self) -> bool:
        """True while this process trusts its term, by this machine's clock. Sends no request."""
        term = self._term
        return term is not None and not term.ended and not term.lost

    def leader(self) -> HeldLease | None:
        """Return the current leader as the store records it."""
        holders = self._lease.holders()
        return holders[0] if holders else None

    def step_down(self) -> bool:
        """Make the term's `check()` raise from now on. Returns False if this process does not lead."""
        term = self._term
        if term is None or not self.is_leader:
            return False
        term.step_down()
        return True

    def run(self, lead: Callable[[Term], object], *, deposed: Callable[[], object] | None = None) -> None:
        """Call `lead` in each term, without end. When `lead` returns, the term is over, and `deposed` is called."""
        for term in self:
            try:
                with term:
                    lead(term)
            finally:
                if deposed:
                    deposed()

    def __iter__(self) -> Iterator[Term]:
        while True:
            term = self._lease.term(Term)
            try:
                self._term = term.granted
                yield term
            finally:
                self._term = None
                try:
                    term.release()
                except BaseException:
                    term.drop()
                    raise
