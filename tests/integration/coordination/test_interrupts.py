"""A thread is interrupted in a block, once at each step that Interlock makes there: afterwards nobody has the lease."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

import pytest

import interlock
from interlock import Interlock
from support.waiting import eventually

OURS = str(Path(interlock.__file__).parent)

# Before the first step of the one, and after the last of the other, Python itself has the block in its hands.
OUT_OF_REACH = {("__exit__", "call"), ("__enter__", "return")}

Block = Callable[[Interlock], AbstractContextManager[object]]
BLOCKS: dict[str, Block] = {
    "a lease": lambda locks: locks.lease("feeds"),
    "one that is not confirmed": lambda locks: locks.lease("feeds", confirm_release=False),
    "several": lambda locks: locks.leases("feeds", "mails"),
    "a reader": lambda locks: locks.shared("feeds", readers=2).read(),
}


class Interrupting:
    """Raises at the step of that number: a function that is begun or left, of ours or called by us."""

    def __init__(self, block: AbstractContextManager[object], at: int) -> None:
        self.has_raised = False
        self._block = type(block)
        self._left = at

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if not frame.f_code.co_filename.startswith(OURS) or self._is_out_of_reach(frame, event):
            return
        self._left -= 1
        if self._left < 0:
            sys.setprofile(None)
            self.has_raised = True
            raise KeyboardInterrupt

    def _is_out_of_reach(self, frame: FrameType, event: str) -> bool:
        of_the_block = isinstance(frame.f_locals.get("self"), self._block)
        return of_the_block and (frame.f_code.co_name, event) in OUT_OF_REACH


def interrupt(block: AbstractContextManager[object], at: int) -> bool:
    """False: it has ended before that step."""
    interrupting = Interrupting(block, at)
    sys.setprofile(interrupting)
    try:
        with block:
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return interrupting.has_raised


@pytest.mark.filterwarnings("ignore:.*was never awaited:RuntimeWarning")  # whoever should have was interrupted
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_wherever_a_thread_is_interrupted_nobody_keeps_the_lease(sync_locks: Interlock, block: Block) -> None:
    with block(sync_locks):
        pass
    shared = block(sync_locks)
    at = 0
    while interrupt(shared, at):
        eventually(lambda: sync_locks.metrics.snapshot().held == 0)
        at += 1
    with shared:
        pass
    assert at > 50
