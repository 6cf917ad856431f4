"""The event loop that a load runs on."""

import asyncio
from collections.abc import Callable

import uvloop

from benchmarks.loads.protocol import Settings


def loop_factory(settings: Settings) -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop that `loop` in the settings names, by default Python's own."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[settings.get("loop", "asyncio")]
