"""A forked child knows its pid, also if an interrupt comes during the fork."""

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


def test_a_child_has_its_own_pid_and_the_parent_keeps_its() -> None:
    before = process.pid
    assert in_child(lambda: process.pid == os.getpid() != before)
    assert process.pid == before == os.getpid()


def test_a_child_knows_its_pid_after_an_interrupt_in_the_fork() -> None:
    succeeds(_LEFT_TO_THE_NEXT_HOOK.format(imported_before="import interlock", program=_NUMBER))


def test_a_child_does_not_wait_for_the_parents_thread_after_an_interrupt_in_the_fork() -> None:
    before = "import interlock.coordination.root, interlock.coordination.sync.lease"
    succeeds(_LEFT_TO_THE_NEXT_HOOK.format(imported_before=before, program=_THREAD))
