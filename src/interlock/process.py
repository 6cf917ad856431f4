"""The id of this process, without a system call each time: only a fork changes it.

Objects made before a fork belong to the parent; each step of a lease checks for that.
"""

import operator
import os
from collections.abc import Callable
from functools import partial
from typing import Any


def recreated_in_children(module: dict[str, Any], name: str, make: Callable[[], object]) -> None:
    """Set a module's variable to `make()` in each forked child. Only C functions run for that: an interrupt would end a
    hook that is written in Python, or come before its first line, and the fork would go on."""
    os.register_at_fork(after_in_child=map(partial(operator.setitem, module, name), iter(make, None)).__next__)


pid = os.getpid()
recreated_in_children(globals(), "pid", os.getpid)
