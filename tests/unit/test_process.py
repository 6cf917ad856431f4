"""A forked child knows that it is one, also when an interrupt comes in the middle of the fork."""

import os

from interlock import process
from support.forks import in_child, succeeds

_LEFT_TO_THE_NEXT_HOOK = """
import ctypes, functools, os, signal
{imported_before}
os.register_at_fork(after_in_child=functools.partial(ctypes.pythonapi.PyErr_SetInterruptEx, signal.SIGINT))
{program}
child = 0
try:
    child = os.fork()
except KeyboardInterrupt:  # in the child, behind the hooks
    pass
if child == 0:
    look()
assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""

_NUMBER = """
from interlock import process

def look():
    os._exit(0 if process.pid == os.getpid() else 1)
"""

_THREAD = """
import threading
from interlock import Interlock

begins = threading.Event()

def stand_still():
    begins.set()
    signal.pause()

def look():
    signal.alarm(20)
    Interlock("sqlite:///never opened").loop_thread()
    os._exit(0)

slow = Interlock("sqlite:///never opened", loop_factory=stand_still)
threading.Thread(target=slow.loop_thread, daemon=True).start()
begins.wait()
"""


def test_a_child_has_a_number_of_its_own_and_the_parent_keeps_its() -> None:
    before = process.pid
    assert in_child(lambda: process.pid == os.getpid() != before)
    assert process.pid == before == os.getpid()


def test_an_interrupt_in_a_fork_does_not_keep_its_child_from_knowing_that_it_is_one() -> None:
    succeeds(_LEFT_TO_THE_NEXT_HOOK.format(imported_before="import interlock", program=_NUMBER))


def test_an_interrupt_in_a_fork_does_not_keep_its_child_waiting_for_a_thread_that_it_has_not() -> None:
    before = "import interlock.coordination.root, interlock.coordination.sync.lease"
    succeeds(_LEFT_TO_THE_NEXT_HOOK.format(imported_before=before, program=_THREAD))
