"""Polling for a condition that has no signal of its own, with a timeout; the failure shows the last observation."""

import time
from collections.abc import Callable
from typing import TypeVar

from support.postgres import kept_connections

T = TypeVar("T")
PATIENCE = 50.0
"""Seconds, for conditions that take one or two seconds on an idle machine."""


def eventually(look: Callable[[], T], *, within: float = PATIENCE) -> T:
    """The first true result of `look`. Fails at the timeout."""
    give_up_at = time.monotonic() + within
    with kept_connections():
        while not (seen := look()):
            if time.monotonic() > give_up_at:
                raise AssertionError(f"not within {within} s; last seen: {seen!r}")
            time.sleep(0.02)
    return seen
