"""Runs the statements of one operation on a user's connection, and turns the server's errors into Interlock's."""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from interlock.errors import InterlockError, RetryTransaction
from interlock.user_connections.adapter import Parameters, Rows, unfit
from interlock.user_connections.registry import async_adapter, sync_adapter

T = TypeVar("T")

Steps = Generator[tuple[str, Parameters], Rows, T]
"""A generator that yields a statement with its parameters, receives the rows, and returns the operation's result."""

ErrorMap = Callable[[str | None], InterlockError | None]
"""Returns Interlock's error for an error code of the server, or None: then the driver's own error is raised."""

_SERIALIZATION_FAILURE = "40001"


async def run_steps(
    connection: Any, steps: Steps[T], map_error: ErrorMap | None = None, *, in_transaction: bool = True
) -> T:
    """Run the steps. Raises `ConnectionUnfit` if the connection cannot be used.

    With `in_transaction`, a connection that is not in a transaction cannot be used either.
    """
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
    """Returns Interlock's error for the driver's error, or None to raise the error unchanged.

    An unchanged error of the driver is one that the user's code knows how to handle.
    """
    if isinstance(error, InterlockError):
        return None
    code = code_of(error)
    if code == _SERIALIZATION_FAILURE:
        return RetryTransaction(
            "Another transaction has changed data that this transaction has read: roll this transaction back, and run "
            "it again.",
            sqlstate=code,
        )
    return map_error(code) if map_error else None


def code_of(error: BaseException | None) -> str | None:
    """Returns the server's error code, which each driver keeps in an attribute of its own errors.

    SQLAlchemy has the driver's error in `orig`; Django raises its own error from the driver's.
    """
    while error is not None:
        for attribute in ("sqlstate", "pgcode"):
            if isinstance(code := getattr(error, attribute, None), str):
                return code
        error = getattr(error, "orig", None) or error.__cause__
    return None
