"""Blocks of threads that share a lock: leaving a block releases its own grant and no other."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from interlock.coordination.sync.blocks import Blocks


class Held:
    def __init__(self) -> None:
        self.ended = False
        self.meanwhile: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> bool:
        if not self.ended:
            self.ended = True
            self.meanwhile()
        return True

    def drop(self) -> None:
        self.ended = True


class Slots(Blocks[Held]):
    """A lock without a limit of holders."""

    def _acquire(self, granted: list[Held]) -> Held:
        granted.append(Held())
        return granted[-1]


def test_leaving_a_block_that_another_thread_began_leaves_a_third_threads_grant_alone() -> None:
    """A generator may be ended by another thread than the one that began it, and the release takes time."""
    slots = Slots()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        begun = one.submit(slots.__enter__).result()
        came: list[Held] = []
        begun.meanwhile = lambda: came.append(other.submit(slots.__enter__).result())
        slots.__exit__(None, None, None)
        assert begun.ended
        [held] = came
        assert not held.ended
        other.submit(slots.__exit__, None, None, None).result()
        assert held.ended
