"""Questions that are asked one after the other on a connection of the user's, and what the answers amount to."""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from interlock.connections.codes import code_of
from interlock.connections.kinds import async_use, sync_use
from interlock.connections.use import Parameters, Rows, unfit
from interlock.errors import InterlockError, RetryTransaction

T = TypeVar("T")

Steps = Generator[tuple[str, Parameters], Rows, T]
"""Yields a statement with its parameters, is sent its rows, and returns what they mean."""

Judge = Callable[[str | None], InterlockError | None]
"""What a code of the server's means here; None: the driver's own error is to stand."""

_SERIALIZATION_FAILURE = "40001"


async def ask(connection: Any, steps: Steps[T], judge: Judge | None = None, *, in_transaction: bool = True) -> T:
    """Raises `ConnectionUnfit`; with `in_transaction`, also where the connection is in none."""
    use = async_use(connection)
    try:
        if in_transaction and (why := await use.unfit()):
            raise unfit(why)
        question = next(steps)
        while True:
            question = steps.send(await use.fetch(*question))
    except StopIteration as end:
        answer: T = end.value
        return answer
    except Exception as error:
        if verdict := _verdict(error, judge):
            raise verdict from error
        raise


def ask_sync(connection: Any, steps: Steps[T], judge: Judge | None = None, *, in_transaction: bool = True) -> T:
    use = sync_use(connection)
    try:
        if in_transaction and (why := use.unfit()):
            raise unfit(why)
        question = next(steps)
        while True:
            question = steps.send(use.fetch(*question))
    except StopIteration as end:
        answer: T = end.value
        return answer
    except Exception as error:
        if verdict := _verdict(error, judge):
            raise verdict from error
        raise


def _verdict(error: Exception, judge: Judge | None) -> InterlockError | None:
    """None: the error stands. What says nothing of ours stays the driver's own: the user knows how to handle it."""
    if isinstance(error, InterlockError):
        return None
    code = code_of(error)
    if code == _SERIALIZATION_FAILURE:
        return RetryTransaction(
            "Somebody else has changed since what this transaction goes by: roll it back and run it again.",
            sqlstate=code,
        )
    return judge(code) if judge else None
