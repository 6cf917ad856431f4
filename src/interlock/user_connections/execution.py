"""Runs the statements of one operation on a user's connection, and turns the server's errors into Interlock's."""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from interlock.errors import InterlockError, RetryTransaction
from interlock.user_connections.adapter import Parameters, Rows, unfit
from interlock.user_connections.registry import async_adapter, sync_adapter

T = TypeVar("T")

Steps = Generator[tuple[str, Parameters], Rows, T]
"""Yields a statement with its parameters, is sent its rows, and returns the result of the operation."""

ErrorMap = Callable[[str | None], InterlockError | None]
"""Maps an error code of the server to Interlock's error. None: the driver's own error is raised."""

_SERIALIZATION_FAILURE = "40001"


async def run_steps(
    connection: Any, steps: Steps[T], map_error: ErrorMap | None = None, *, in_transaction: bool = True
) -> T:
    """Raises `ConnectionUnfit`, with `in_transaction` also if the connection is in no transaction."""
    adapter = async_adapter(connection)
    try:
        if in_transaction and (reason := await adapter.unfit_reason()):
            raise unfit(reason)
        statement = next(steps)
        while True:
            statement = steps.send(await adapter.fetch(*statement))
    except StopIteration as end:
        result: T = end.value
        return result
    except Exception as error:
        if mapped := _mapped(error, map_error):
            raise mapped from error
        raise


def run_steps_sync(
    connection: Any, steps: Steps[T], map_error: ErrorMap | None = None, *, in_transaction: bool = True
) -> T:
    adapter = sync_adapter(connection)
    try:
        if in_transaction and (reason := adapter.unfit_reason()):
            raise unfit(reason)
        statement = next(steps)
        while True:
            statement = steps.send(adapter.fetch(*statement))
    except StopIteration as end:
        result: T = end.value
        return result
    except Exception as error:
        if mapped := _mapped(error, map_error):
            raise mapped from error
        raise


def _mapped(error: Exception, map_error: ErrorMap | None) -> InterlockError | None:
    """None: the driver's error is raised as it is, because the user's code knows how to handle it."""
    if isinstance(error, InterlockError):
        return None
    code = code_of(error)
    if code == _SERIALIZATION_FAILURE:
        return RetryTransaction(
            "Another transaction has changed what this one has read: roll this one back and run it again.",
            sqlstate=code,
        )
    return map_error(code) if map_error else None


def code_of(error: BaseException | None) -> str | None:
    """The server's error code, which every driver keeps in an error of its own.

    SQLAlchemy has the driver's error in `orig`; Django raises its own error from the driver's.
    """
    while error is not None:
        for attribute in ("sqlstate", "pgcode"):
            if isinstance(code := getattr(error, attribute, None), str):
                return code
        error = getattr(error, "orig", None) or error.__cause__
    return None
