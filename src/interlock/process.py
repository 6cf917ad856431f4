"""The id of this process, without a system call for each read: only a fork changes the id.

Objects made before a fork belong to the parent process; each operation on a lease checks for that.
"""

import operator
import os
from collections.abc import Callable
from functools import partial
from typing import Any


def recreated_in_children(module: dict[str, Any], name: str, make: Callable[[], object]) -> None:
    """Set a module's variable to `make()` in each forked child. Only C functions run for this: an interrupt could end a
    hook written in Python, or come before its first line, and the fork would still go on."""
    os.register_at_fork(after_in_child=map(partial(operator.setitem, module, name), iter(make, None)).__next__)


pid = os.getpid()
recreated_in_children(globals(), "pid", os.getpid)
