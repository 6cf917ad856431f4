"""The blocks of threads that share a lock: ``with lock: …``. An interrupt leaves nothing behind there.

It is whatever a signal's handler raises, and it comes between any two steps. Until a block has begun, nobody but us
knows of a grant that has come; and once it is being left, nobody but us gives it back.
"""

import threading
from typing import Generic, Protocol, Self, TypeVar

from interlock.coordination.lease.blocks import OpenBlocks


class _HeldSync(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None: ...

    def release(self) -> bool: ...

    def drop(self) -> None:
        """As `release`, without waiting for it; nothing, if it has ended."""


H = TypeVar("H", bound=_HeldSync)


class Blocks(Generic[H]):
    """A base class: each call more on the way into a block, and out of it, is a step more that an interrupt may hit."""

    def __init__(self) -> None:
        self._entered: OpenBlocks[H] = OpenBlocks()

    def _acquire(self, granted: list[H]) -> H:
        """What it gets it also puts into that list, as soon as it is there."""
        raise NotImplementedError

    def __enter__(self) -> H:
        owner = threading.current_thread()
        granted: list[H] = []
        try:
            return self._entered.add(owner, self._acquire(granted).__enter__())
        except BaseException:
            for grant in granted:
                self._entered.remove((owner, grant))
                grant.release()
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        entry = None
        try:
            entry = self._newest()
            self._entered.remove(entry)  # first: while we wait for the store, others come and go
            entry[1].__exit__(kind, error, trace)
        except BaseException:
            entry = entry or self._newest()
            self._entered.remove(entry)
            entry[1].drop()
            raise

    def _newest(self) -> tuple[object, H]:
        return self._entered.newest(threading.current_thread())
