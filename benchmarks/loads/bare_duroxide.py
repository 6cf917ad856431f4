"""Orchestrations of one activity on the engine alone, set up as Interlock sets it up."""

import itertools
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duroxide

from benchmarks.loads.protocol import Settings, serve
from interlock.durable.engine import options

_STARTERS = 8


def main(settings: Settings) -> None:
    provider = duroxide.PostgresProvider.connect_with_schema(settings["url"], "bare_engine")
    runtime = duroxide.Runtime(provider, options(duroxide, settings["concurrency"]))
    runtime.register_activity("double", lambda context, number: 2 * number)
    runtime.register_orchestration("doubled", doubled)
    threading.Thread(target=runtime.start, daemon=True).start()
    client = duroxide.Client(provider)
    numbers = itertools.count()
    with ThreadPoolExecutor(_STARTERS) as starters:

        def rate(count: int) -> float:
            ids = [f"doubled-{next(numbers)}-{time.time_ns()}" for _ in range(count)]
            began_at = time.perf_counter()
            list(starters.map(lambda name: client.start_orchestration(name, "doubled", 21), ids))
            ends = starters.map(lambda name: client.wait_for_orchestration(name, 60_000), ids)
            assert all(end.output == 42 for end in ends)
            return count / (time.perf_counter() - began_at)

        rate(20)
        serve(lambda order: rate(order["count"]))
    runtime.shutdown(1000)


def doubled(context: Any, number: int) -> Generator[Any, Any, int]:
    result: int = yield context.schedule_activity("double", number)
    return result
