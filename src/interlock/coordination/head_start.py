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
    both = _both(work)
    try:
        both.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(both)


async def _both(work: Coroutine[Any, Any, None]) -> None:
    """What is begun here and goes on in a task, which takes nothing but a coroutine."""
    await _relay(work)


@types.coroutine
def _relay(work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
    """Whatever it waits for is waited for by the task, which cannot tell the difference."""
    try:
        awaited = work.send(None)
        try:
            yield  # to `begin`: the task has its first turn here, or is cancelled before that
        except BaseException as error:
            awaited = work.throw(error)
        while True:
            try:
                sent = yield awaited
            except BaseException as error:
                awaited = work.throw(error)
            else:
                awaited = work.send(sent)
    except StopIteration:
        return
