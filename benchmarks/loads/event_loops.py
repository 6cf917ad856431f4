"""Which event loop a program of ours runs on."""

import asyncio
from collections.abc import Callable

import uvloop

from benchmarks.loads.talk import Settings


def loop_factory(settings: Settings) -> Callable[[], asyncio.AbstractEventLoop]:
    """`loop` in the settings names it; otherwise it is Python's own."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[settings.get("loop", "asyncio")]
