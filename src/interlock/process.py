"""Which process this is, without a question to the kernel each time: a fork changes it, and nothing else does.

What was made before a fork is the parent's; each step of a lease looks whether it is.
"""

import operator
import os
from collections.abc import Callable
from functools import partial
from typing import Any


def recreated_in_children(module: dict[str, Any], name: str, make: Callable[[], object]) -> None:
    """What `make` gives there is put into a module's variable. Only C functions run for that: an interrupt ends a hook
    that is written in Python, or comes before its first line, and the fork goes on."""
    os.register_at_fork(after_in_child=map(partial(operator.setitem, module, name), iter(make, None)).__next__)


pid = os.getpid()
recreated_in_children(globals(), "pid", os.getpid)
