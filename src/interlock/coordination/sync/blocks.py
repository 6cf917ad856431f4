"""The blocks of threads that share a lock: ``with lock: …``. An interrupted block leaves no lock held.

An interrupt is an exception that a signal's handler raises between any two steps. Before a block has begun, and while
its thread leaves it, only the code in this module can release the block's grant.
"""

import threading
from typing import Generic, Protocol, Self, TypeVar

from interlock.coordination.lease.blocks import OpenBlocks


class _HeldSync(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None: ...

    def release(self) -> bool: ...

    def drop(self) -> None:
        """Release the grant and do not wait for the answer. Does nothing if the grant has ended."""


H = TypeVar("H", bound=_HeldSync)


class Blocks(Generic[H]):
    """The base class of locks for threads. It makes few calls, because an interrupt may hit each call on the path into
    a block or out of it."""

    def __init__(self) -> None:
        self._entered: OpenBlocks[H] = OpenBlocks()

    def _acquire(self, granted: list[H]) -> H:
        """Acquire the lock, and append the grant to `granted` as soon as the grant exists."""
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
            self._entered.remove(entry)  # first: other threads enter and leave while this one waits for the store
            entry[1].__exit__(kind, error, trace)
        except BaseException:
            entry = entry or self._newest()
            self._entered.remove(entry)
            entry[1].drop()
            raise

    def _newest(self) -> tuple[object, H]:
        return self._entered.newest(threading.current_thread())
