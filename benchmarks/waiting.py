"""Waiting for something that has no signal of its own."""

import time
from collections.abc import Callable

_PATIENCE = 60.0


class NotSeen(Exception):
    """What was waited for did not come; the message says what."""


def wait_until(is_so: Callable[[], bool], *, what: str) -> None:
    give_up_at = time.monotonic() + _PATIENCE
    while not is_so():
        if time.monotonic() > give_up_at:
            raise NotSeen(f"not within {_PATIENCE:g} s: {what}")
        time.sleep(0.02)
