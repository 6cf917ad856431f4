"""Cancels the work under a lock when the lock is lost, and keeps the cancellations that other code requested."""

import asyncio
from contextlib import suppress


class Body:
    """The task that works under the lock. This object cancels the task when the lock is lost; other code may cancel it
    too."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._cancelled = False
        self._ended = False

    def cancel(self, why: str) -> None:
        if not self._ended:
            self._cancelled = True
            self._task.cancel(why)

    async def end(self, error: BaseException | None) -> bool:
        """Take back this object's cancellation. Returns True if other code cancelled the task too."""
        self._ended = True
        if not self._cancelled:
            return False
        if not isinstance(error, asyncio.CancelledError):
            with suppress(asyncio.CancelledError):  # it was not delivered yet when the body ended by itself
                await asyncio.sleep(0)
        return (
            self._task.uncancel() > self._before
        )  # only now: another cancellation may have come together with this one
