"""Functions that run under a lock: ``@lease.wrap(busy="skip")``."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, get_args

from interlock.errors import ConfigurationError, LeaseBusy

if TYPE_CHECKING:
    from interlock.coordination.lease.lease import AsyncLease
    from interlock.coordination.sync.lease import Lease

Busy = Literal["wait", "skip", "raise"]
P = ParamSpec("P")
T = TypeVar("T")


def wrapped_async(
    lease: "AsyncLease", busy: Busy
) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T | None]]]:
    _check(busy)

    def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T | None]]:
        if not inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                f"{_name(function)} is not a coroutine function, but this lease belongs to an AsyncInterlock: "
                "write `async def`, or use a lease of the class `Interlock`."
            )

        @functools.wraps(function)
        async def run(*args: P.args, **kwargs: P.kwargs) -> T | None:
            if busy == "wait":
                async with lease:
                    return await function(*args, **kwargs)
            if grant := await lease.try_acquire():
                async with grant:
                    return await function(*args, **kwargs)
            if busy == "raise":
                raise _busy(lease.name)
            return None

        return run

    return decorate


def wrapped_sync(lease: "Lease", busy: Busy) -> Callable[[Callable[P, T]], Callable[P, T | None]]:
    _check(busy)

    def decorate(function: Callable[P, T]) -> Callable[P, T | None]:
        if inspect.iscoroutinefunction(function):
            raise ConfigurationError(
                f"{_name(function)} is a coroutine function, but this lease belongs to an Interlock: "
                "write `def`, or use a lease of the class `AsyncInterlock`."
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(
                f"{_name(function)} is a generator function, and its body would run only after the lease was released: "
                "take the lease inside it."
            )

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T | None:
            if busy == "wait":
                with lease:
                    return function(*args, **kwargs)
            if grant := lease.try_acquire():
                with grant:
                    return function(*args, **kwargs)
            if busy == "raise":
                raise _busy(lease.name)
            return None

        return run

    return decorate


def _busy(name: str) -> LeaseBusy:
    return LeaseBusy(
        f"The lease {name!r} is held already: try again later, or wait for it with busy='wait'.", name=name
    )


def _check(busy: str) -> None:
    if busy not in get_args(Busy):
        raise ConfigurationError(f"busy={busy!r}: use 'wait', 'skip' or 'raise'.")


def _name(function: object) -> str:
    return getattr(function, "__qualname__", repr(function))
