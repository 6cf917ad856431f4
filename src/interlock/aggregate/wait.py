"""Waiting in orchestrations until an observation shows the requested state."""

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
    """Observe repeatedly until `is_done` returns True, and return the last observation.

    `is_done` gets the observation and the seconds of pauses so far, and raises to give up. Pauses are timers of the
    engine, which outlive every replica. They start at a tenth of a second and double up to `longest_pause`.
    """
    pause, waited = FIRST_PAUSE, 0.0
    while not is_done(observation := await observe(), waited):
        await run.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, longest_pause)
    return observation
