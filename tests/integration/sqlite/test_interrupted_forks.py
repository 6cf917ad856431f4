"""Forks that a signal's handler raises in the middle of: Python prints that, and the fork goes on."""

import pytest

from support.forks import succeeds

_WHILE_IT_WAITS = """
import os, signal, sys, threading
from interlock import Interlock, errors
from interlock.stores.sqlite import forks

url = sys.argv[1]
is_inside, may_leave, interrupted = threading.Event(), threading.Event(), threading.Event()

def stay_inside():
    with forks.InsideSqlite():
        is_inside.set()
        may_leave.wait()

def interrupt(_, frame):
    if frame.f_code.co_filename == forks.__file__ and not interrupted.is_set():
        interrupted.set()
        raise KeyboardInterrupt

def fork(work):
    child = os.fork()
    if child == 0:
        os._exit(work())
    return child

def nothing():
    return 0

def refused():
    try:
        Interlock(url).lease("feeds").try_acquire()
    except errors.ConfigurationError as error:
        return 0 if "interrupt" in str(error) else 2
    return 1

def granted():
    with Interlock(url) as locks, locks.lease("feeds"):
        return 0

worker = threading.Thread(target=stay_inside)
worker.start()
is_inside.wait()
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
child = fork(globals()[sys.argv[2]])
signal.setitimer(signal.ITIMER_REAL, 0)
assert interrupted.is_set()
assert os.waitpid(child, 0)[1] == 0
may_leave.set()
worker.join()
assert granted() == 0
assert os.waitpid(fork(granted), 0)[1] == 0
"""

_AS_IT_ENDS = """
import _thread, os, threading
os.register_at_fork(before=_thread.interrupt_main)  # called last of all, just before the fork itself
from interlock.stores.sqlite import forks

inside, went_inside = forks.InsideSqlite(), threading.Event()
try:
    if os.fork() == 0:
        os._exit(0)
except KeyboardInterrupt:
    pass

def go_inside():
    with inside:
        went_inside.set()

threading.Thread(target=go_inside, daemon=True).start()
os._exit(0 if went_inside.wait(20) else 1)
"""


@pytest.mark.parametrize("child", ["nothing", "refused"])
def test_an_interrupt_while_a_fork_waits_costs_nothing_but_its_child_the_use_of_sqlite(url: str, child: str) -> None:
    succeeds(_WHILE_IT_WAITS, url, child)


def test_an_interrupt_during_a_fork_blocks_no_thread() -> None:
    succeeds(_AS_IT_ENDS)
