"""Cancelling what goes on under a lock when the lock is lost, without losing anybody else's cancellation."""

import asyncio
from contextlib import suppress


class Body:
    """The task under the lock, as far as its cancellation goes: ours, when the lock is lost, or another's."""

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
        """Take back the cancellation that was ours; the answer is whether somebody else has cancelled the body too."""
        self._ended = True
        if not self._cancelled:
            return False
        if not isinstance(error, asyncio.CancelledError):
            with suppress(asyncio.CancelledError):  # it was still on its way when the body ended by itself
                await asyncio.sleep(0)
        return self._task.uncancel() > self._before  # at last: another's may have come together with ours
