"""Waiting for a condition that has no signal of its own."""

import time
from collections.abc import Callable

_TIMEOUT = 60.0


class NotObserved(Exception):
    """The condition did not become true; the message names it."""


def wait_until(is_so: Callable[[], bool], *, what: str) -> None:
    give_up_at = time.monotonic() + _TIMEOUT
    while not is_so():
        if time.monotonic() > give_up_at:
            raise NotObserved(f"not within {_TIMEOUT:g} s: {what}")
        time.sleep(0.02)
