"""Work on a connection that is more than questions, written once for sync and async ones.

It is a generator of what a connection's methods return. Those of a sync connection have done it by then, and the result
goes back in as it is; those of an async one are awaited first. Errors come up where the method was called, either way.
"""

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")

Work = Generator[Any, Any, T]


async def work(steps: Work[T]) -> T:
    try:
        step = next(steps)
        while True:
            try:
                done = await step
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(done)
    except StopIteration as end:
        answer: T = end.value
        return answer


def work_sync(steps: Work[T]) -> T:
    try:
        done = next(steps)
        while True:
            done = steps.send(done)
    except StopIteration as end:
        answer: T = end.value
        return answer
