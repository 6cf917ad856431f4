"""A thread is interrupted at each step that Interlock makes in a block: afterwards the lease is free."""

import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import cast

import pytest

import interlock
from interlock import Election, Interlock, Lease, Term
from support.postgres import execute
from support.waiting import eventually

PACKAGE = str(Path(interlock.__file__).parent)

# Python handles signals when a function begins, and not when it ends: an interrupt cannot come between the end of
# these and the block, or the step that handles their result. Before the first step of `__exit__` no code of Interlock
# runs. An exception raised here when a generator resumes would end it without its `finally`.
NOT_INTERRUPTED = {
    ("__enter__", "return"),
    ("__exit__", "call"),
    ("__iter__", "call"),
    ("__iter__", "return"),
    ("term", "return"),
}

Block = Callable[[Interlock], AbstractContextManager[object]]
BLOCKS: dict[str, Block] = {
    "a lease": lambda locks: locks.lease("feeds"),
    "one that is not confirmed": lambda locks: locks.lease("feeds", confirm_release=False),
    "several": lambda locks: locks.leases("feeds", "mails"),
    "a reader": lambda locks: locks.shared("feeds", readers=2).read(),
    "a session lock": lambda locks: locks.session_lock("feeds"),
    "a member": lambda locks: locks.join("feeds"),
    "a leader": lambda locks: Led(locks.lease("feeds").terms()),
}


class Led:
    """A block of one term."""

    def __init__(self, election: Election) -> None:
        self._election = election

    def __enter__(self) -> Term:
        self._terms = cast("Generator[Term]", iter(self._election))
        try:
            return next(self._terms).__enter__()
        except BaseException:  # as when the generator is dropped
            self._terms.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._terms.close()


HELD = """
    SELECT (SELECT count(*) FROM interlock.lease WHERE expires_at > interlock.now_v1())
         + (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name ~ 'feeds')
"""


class Interrupting:
    """Raises at the step of that number: the start or end of a function of Interlock, or of one that it calls."""

    def __init__(self, block: AbstractContextManager[object], at: int) -> None:
        self.has_raised = False
        self._block = (type(block), Election, Lease, Term)
        self._left = at

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if not frame.f_code.co_filename.startswith(PACKAGE) or self._cannot_interrupt(frame, event):
            return
        self._left -= 1
        if self._left < 0:
            sys.setprofile(None)
            self.has_raised = True
            raise KeyboardInterrupt

    def _cannot_interrupt(self, frame: FrameType, event: str) -> bool:
        of_the_block = isinstance(frame.f_locals.get("self"), self._block)
        return of_the_block and (frame.f_code.co_name, event) in NOT_INTERRUPTED


def interrupt(block: AbstractContextManager[object], at: int) -> bool:
    """Return False if the block has ended before that step."""
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


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.filterwarnings("ignore:.*was never awaited:RuntimeWarning")  # its caller was interrupted
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_an_interrupt_at_any_step_leaves_no_lease_held(sync_locks: Interlock, interlock_url: str, block: Block) -> None:
    with block(sync_locks):
        pass
    shared = block(sync_locks)
    at = 0
    while interrupt(shared, at):
        eventually(lambda: execute(interlock_url, HELD) == [(0,)])
        at += 1
    with shared:
        pass
    assert at > 50
