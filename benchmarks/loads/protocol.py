"""The protocol between a load and its driver: "ready" after the warm-up, then one answer per line of orders."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

Settings = dict[str, Any]
Order = dict[str, Any]


def serve(turn: Callable[[Order], object]) -> None:
    """Answer orders until the end of input."""
    for order in orders():
        answer(turn(order))


def orders() -> Iterator[Order]:
    _write("ready")
    for line in sys.stdin:
        yield json.loads(line)


async def orders_async() -> AsyncIterator[Order]:
    """The orders, read without blocking the event loop."""
    _write("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield json.loads(line)


def answer(what: object) -> None:
    _write(json.dumps(what))


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
