"""Waiting for something that has no signal of its own: bounded, and failing with what was seen last."""

import time
from collections.abc import Callable
from typing import TypeVar

from support.postgres import kept_connections

T = TypeVar("T")
PATIENCE = 50.0
"""Seconds, for what takes one or two on a machine that has nothing else to do."""


def eventually(look: Callable[[], T], *, within: float = PATIENCE) -> T:
    """The first true answer of `look`."""
    give_up_at = time.monotonic() + within
    with kept_connections():
        while not (seen := look()):
            if time.monotonic() > give_up_at:
                raise AssertionError(f"not within {within} s; last seen: {seen!r}")
            time.sleep(0.02)
    return seen
