"""Cycles of acquire and release by threads of one process, each on a name of its own."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from benchmarks.loads.protocol import Order, serve

WARM_UP = 5


class Lock(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> object: ...


def serve_cycles(lock_of: Callable[[int], Lock], workers: int) -> None:
    """Each order is answered with the cycles per second of all threads together."""
    locks = [lock_of(worker) for worker in range(workers)]
    for lock in locks:
        for _ in range(WARM_UP):
            cycle(lock)

    def turn(order: Order) -> float:
        return rate(locks, order["seconds"])

    serve(turn)


def cycle(lock: Lock) -> None:
    lock.acquire()
    lock.release()


def rate(locks: list[Lock], seconds: float) -> float:
    counts = [0] * len(locks)
    start = threading.Barrier(len(locks) + 1)

    def work(worker: int) -> None:
        lock = locks[worker]
        start.wait()
        end_at = time.monotonic() + seconds
        while time.monotonic() < end_at:
            cycle(lock)
            counts[worker] += 1

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(len(locks))]
    for thread in threads:
        thread.start()
    start.wait()
    begun_at = time.monotonic()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - begun_at)
