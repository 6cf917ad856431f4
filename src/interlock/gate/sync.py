"""The gate for callers without an event loop: an `AsyncGate` on a loop thread of its own."""

from collections.abc import Callable
from typing import Any, Unpack

from interlock.bridge import LoopThread, in_caller
from interlock.errors import ConfigurationError
from interlock.gate.gate import AsyncGate, GateOptions
from interlock.gate.passage import AsyncPassage, Reason
from interlock.gate.steps import Effect, Precondition


class Passage:
    """Like `AsyncPassage`, with blocking methods. A thread cannot be interrupted: call `check()` between steps, or
    register a function with `on_lost`. If the gate was lost, the end of the block raises `GateLost`."""

    def __init__(self, passage: AsyncPassage, loop: LoopThread) -> None:
        self._passage = passage
        self._loop = loop

    @property
    def gate(self) -> str:
        return self._passage.gate

    @property
    def reason(self) -> Reason:
        return self._passage.reason

    @property
    def needed(self) -> bool:
        return self._passage.needed

    @property
    def fence(self) -> int:
        return self._passage.fence

    @property
    def lost(self) -> bool:
        return self._passage.lost

    def check(self) -> None:
        self._passage.check()

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Register a function that is called when the gate is lost. It runs on the event loop's thread, so it must not
        block for long."""
        self._passage.on_lost(callback)

    def report(self, step: str) -> None:
        self._loop.run(self._passage.report(step))

    def protect(self, pid: int) -> None:
        self._loop.run(self._passage.protect(pid))

    def step(self, key: str, effect: Effect, *, precondition: Precondition | None = None) -> Any:
        return self._loop.run(self._passage.step(key, effect, precondition=precondition))


class Gate:
    """``with Gate("shop", check=is_current) as passage: if passage.needed: …``; see `AsyncGate` for its parameters.

    `check` and the effects of steps run in the calling thread.
    """

    def __init__(self, app: str | None = None, **options: Unpack[GateOptions]) -> None:
        self._gate = AsyncGate(app, **options, run_blocking=in_caller)
        self._loop: LoopThread | None = None

    @property
    def phase(self) -> str:
        return self._gate.phase

    def __enter__(self) -> Passage:
        if self._loop is not None:
            raise ConfigurationError("This gate object is in use: create one for each passage.")
        self._loop = LoopThread("interlock-gate")
        try:
            return Passage(self._loop.run(self._gate.enter()), self._loop)
        except BaseException as error:  # perhaps an interrupt after the gate was passed
            self.__exit__(type(error), error, None)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        try:
            loop.run(self._gate.leave(error))
        finally:
            loop.close()

    def run(self, migrate: Callable[[], Any]) -> bool:
        """Call `migrate` if a migration is needed. Returns True if `migrate` was called."""
        with self as passage:
            if passage.needed:
                migrate()
            return passage.needed
