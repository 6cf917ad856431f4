"""Which process this is, without a question to the kernel each time: a fork changes it, and nothing else does.

What was made before a fork is the parent's; each step of a lease looks whether it is.
"""

import os

pid = os.getpid()


def _note_fork() -> None:
    global pid
    pid = os.getpid()


os.register_at_fork(after_in_child=_note_fork)
