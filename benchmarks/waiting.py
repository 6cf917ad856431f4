"""Waiting for something that has no signal of its own."""

import time
from collections.abc import Callable

_PATIENCE = 60.0


def wait_until(is_so: Callable[[], bool], *, what: str) -> None:
    give_up_at = time.monotonic() + _PATIENCE
    while not is_so():
        if time.monotonic() > give_up_at:
            raise SystemExit(f"Not within {_PATIENCE:g} s: {what}.")
        time.sleep(0.02)
