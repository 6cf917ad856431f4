"""Declarations of activities and orchestrations: functions with a name, types and a retry policy.

A declaration opens no connection.

The engine runs an orchestration from its start again at every turn. At the end of each turn the coroutine is thrown
away where it waits. So `finally:` and `with` blocks would run at every turn instead of at the end, and an `except:`
that catches everything would keep the coroutine from ending. So the declaration refuses both.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from interlock.coordination.lease.times import Duration, seconds
from interlock.durable.typed import Typed, types_of
from interlock.errors import ConfigurationError

if TYPE_CHECKING:
    from interlock.durable.attempt import Attempt
    from interlock.durable.run import Run

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_CLEANUP_HINT = "move the clean-up into an orchestration of its own, and pass that orchestration as cleanup="


@dataclass(frozen=True)
class Retry:
    """A retry policy. There are at most `attempts` attempts.

    The pause after the first failure is `first` seconds; each later pause is `factor` times as long, up to `longest`.
    Errors of the types in `never`, and `DoNotRetry`, end the attempts. The default policy outlasts a database outage of
    some minutes.
    """

    attempts: int = 10
    first: float = 1.0
    factor: float = 2.0
    longest: float = 60.0
    never: tuple[type[BaseException], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first < 0 or self.factor < 1 or self.longest < self.first:
            raise ConfigurationError(
                f"{self!r} cannot work: use at least 1 attempt, pauses of 0 s or more, a factor of 1 or more, and a "
                "longest pause that is not shorter than the first."
            )

    def pause(self, failures: int) -> float | None:
        """Returns the pause after `failures` failures; None if there is no further attempt."""
        if failures >= self.attempts:
            return None
        return min(self.longest, self.first * self.factor ** min(failures - 1, 64))


USUAL = Retry()
ONCE = Retry(attempts=1)
FOREVER = Retry(attempts=1_000_000)
"""The policy for steps that need only the database."""


@dataclass(frozen=True, eq=False)
class Activity(Generic[I, O]):
    """A step with one effect. It may run more than once, and has to leave a single effect nevertheless; see `Attempt`.

    `timeout` limits an attempt. A replica that is being closed waits that long for a running activity. An
    `interruptible` activity is cancelled instead, and another replica runs it again. A plain function runs in a thread
    and cannot be interrupted: its `timeout` only limits the wait.
    """

    name: str
    function: "Callable[[Attempt, I], Awaitable[O] | O]"
    input: Typed[I]
    output: Typed[O]
    retry: Retry
    timeout: float
    interruptible: bool = False

    @property
    def is_plain(self) -> bool:
        return not inspect.iscoroutinefunction(self.function)


@dataclass(frozen=True, eq=False)
class Orchestration(Generic[I, O]):
    """A coroutine function that runs steps in order.

    The orchestration `cleanup` is started with the same input if the orchestration fails or is cancelled.
    """

    name: str
    version: str
    function: "Callable[[Run, I], Awaitable[O]]"
    input: Typed[I]
    output: Typed[O]
    cleanup: "Orchestration[Any, Any] | None"

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(map(int, self.version.split(".")))


class DeclareActivity(Protocol):
    @overload
    def __call__(self, function: "Callable[[Attempt, I], Awaitable[O]]", /) -> Activity[I, O]: ...
    @overload
    def __call__(self, function: "Callable[[Attempt, I], O]", /) -> Activity[I, O]: ...


class Orchestrations:
    """The activities and orchestrations of one part of an application.

    `prefix` distinguishes their names from those of other parts.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = f"{prefix}." if prefix else ""
        self._activities: dict[str, Activity[Any, Any]] = {}
        self._orchestrations: dict[tuple[str, str], Orchestration[Any, Any]] = {}

    @property
    def activities(self) -> list[Activity[Any, Any]]:
        return list(self._activities.values())

    @property
    def orchestrations(self) -> list[Orchestration[Any, Any]]:
        """All versions of all orchestrations."""
        return list(self._orchestrations.values())

    def activity(
        self,
        *,
        name: str | None = None,
        retry: Retry = USUAL,
        timeout: Duration = 60.0,
        interruptible: bool = False,
    ) -> DeclareActivity:
        """Declare an activity.

        Put ``@work.activity()`` on a ``def`` or ``async def name(attempt: Attempt, order: Order) -> Receipt``.
        """
        longest = seconds(timeout)
        if not 0 < longest <= 86400:
            raise ConfigurationError(f"timeout={timeout!r} is not valid: use more than 0 s, and a day at most.")

        def declare(function: Callable[..., Any], /) -> Activity[Any, Any]:
            input_type, output_type = types_of(function, "activity")
            whole = self._prefix + (name or _own_name(function))
            activity: Activity[Any, Any] = Activity(
                whole, function, input_type, output_type, retry, longest, interruptible
            )
            if interruptible and activity.is_plain:
                raise ConfigurationError(f"A plain function cannot be interrupted: make {whole!r} an `async def`.")
            if self._activities.setdefault(whole, activity) is not activity:
                raise ConfigurationError(f"There are two activities {whole!r}: give one of them another name=.")
            return activity

        return declare

    def orchestration(
        self, *, name: str | None = None, version: str = "1.0.0", cleanup: Orchestration[Any, Any] | None = None
    ) -> "Callable[[Callable[[Run, I], Awaitable[O]]], Orchestration[I, O]]":
        """Declare an orchestration: put ``@work.orchestration()`` on a coroutine function.

        The function has the form ``async def name(run: Run, order: Order) -> Receipt``.

        A running orchestration is finished by the version that it was started with, so keep that version declared until
        the orchestration has ended.
        """
        if not _VERSION.fullmatch(version):
            raise ConfigurationError(f"version={version!r} is not valid: write three numbers, like '1.0.0'.")

        def declare(function: "Callable[[Run, I], Awaitable[O]]") -> Orchestration[I, O]:
            if not inspect.iscoroutinefunction(function):
                raise ConfigurationError(f"The orchestration {function.__qualname__} has to be an `async def`.")
            input_type, output_type = types_of(function, "orchestration")
            _check_replayable(function)
            whole = self._prefix + (name or _own_name(function))
            made: Orchestration[I, O] = Orchestration(whole, version, function, input_type, output_type, cleanup)
            if self._orchestrations.setdefault((whole, version), made) is not made:
                raise ConfigurationError(f"There are two orchestrations {whole!r} {version}: raise one version.")
            return made

        return declare


class Registry:
    """All activities and orchestrations of a replica."""

    def __init__(self, *parts: Orchestrations) -> None:
        self.activities = {one.name: one for part in parts for one in part.activities}
        self.orchestrations = {(one.name, one.version): one for part in parts for one in part.orchestrations}
        if len(self.activities) + len(self.orchestrations) < sum(
            len(part.activities) + len(part.orchestrations) for part in dict.fromkeys(parts)
        ):
            raise ConfigurationError("Two parts declare the same name: give each Orchestrations(…) its own prefix.")

    @property
    def longest_timeout(self) -> float:
        """The longest timeout of an activity, in seconds."""
        return max((one.timeout for one in self.activities.values()), default=0.0)

    def __iter__(self) -> Iterator[Orchestration[Any, Any]]:
        return iter(self.orchestrations.values())


def _own_name(function: Callable[..., Any]) -> str:
    return function.__name__


def _check_replayable(function: Callable[..., Any]) -> None:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # written at a prompt, so there is no source to check
        return
    for line, found in sorted(_unreplayable_blocks(ast.parse(source))):
        raise ConfigurationError(
            f"The orchestration {function.__qualname__} has {found} in its line {line}, and that block would run "
            f"at every turn: {_CLEANUP_HINT}."
        )


def _unreplayable_blocks(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Try(finalbody=[_, *_]) | ast.TryStar(finalbody=[_, *_]):
                yield node.lineno, "a `finally:` block"
            case ast.With() | ast.AsyncWith():
                yield node.lineno, "a `with` block"
            case ast.ExceptHandler(type=None) | ast.ExceptHandler(type=ast.Name(id="BaseException" | "GeneratorExit")):
                yield node.lineno, "an `except` block that also catches the end of a turn"
