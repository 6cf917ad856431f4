"""One of several processes that contend for one lock. It records when each grant came and when its release began."""

import time
from typing import Any

from benchmarks.loads.protocol import Order, serve
from benchmarks.loads.threads import Lock, cycle

HOLD = 0.001

# CLOCK_MONOTONIC is one clock for all processes of a machine.
Stamps = list[tuple[int, int]]


def serve_contention(lock: Lock) -> None:
    """Each order contends until the given moment. The answer has the timestamps of all grants."""
    cycle(lock)

    def turn(order: Order) -> Any:
        return contend(lock, order["until"])

    serve(turn)


def contend(lock: Lock, until: float) -> Stamps:
    stamps: Stamps = []
    while time.monotonic() < until:
        lock.acquire()
        granted_at = time.monotonic_ns()
        time.sleep(HOLD)
        releasing_at = time.monotonic_ns()
        lock.release()
        stamps.append((granted_at, releasing_at))
    return stamps
