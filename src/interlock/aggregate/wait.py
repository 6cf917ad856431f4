"""Waiting of orchestrations: until something is observed to be as it was asked for."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from interlock.durable.run import Run

O = TypeVar("O")  # noqa: E741 # what is observed

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


async def wait_until(
    run: Run,
    observe: Callable[[], Awaitable[O]],
    is_done: Callable[[O, float], bool],
    *,
    longest_pause: float = LONGEST_PAUSE,
) -> O:
    """Observe until `is_done`, which gets the observation and the seconds of pauses so far, and may raise to give up.

    Pauses are timers of the engine: they outlive every replica. They grow from a tenth of a second on.
    """
    pause, waited = FIRST_PAUSE, 0.0
    while not is_done(seen := await observe(), waited):
        await run.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, longest_pause)
    return seen
