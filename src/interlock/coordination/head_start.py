"""A coroutine that begins at once, in the middle of whatever starts it, and goes on as a task of its own.

A task begins with the next turn of the event loop. A statement that is sent from one has waited for that turn, for
nothing if it is alone.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


def begin(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """The task that goes on with it; None: it has ended already.

    Until it waits for the first time, it must not ask which task it is in: that is whoever begins it.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_rest(work, awaited))


@types.coroutine
def _rest(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Whatever it waits for is waited for by the task, which cannot tell the difference.

    A task that is cancelled before its first turn does not come here, and the work is closed with it.
    """
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as error:
                awaited = work.throw(error)
            else:
                awaited = work.send(sent)
    except StopIteration:
        return
