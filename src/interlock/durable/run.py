"""The interface of an orchestration: it awaits steps, and nothing else.

The engine runs an orchestration again from its start whenever a step that it awaits has ended, and replays the results
of earlier steps from its history. So an orchestration has to take the same steps each time: time, random values and
effects come only from steps.
"""

import json
import uuid
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Never, TypeVar, cast, overload

from interlock.coordination.lease.times import Duration, seconds
from interlock.durable.declarations import ONCE, Activity, Orchestration, Retry
from interlock.durable.failures import ActivityFailure
from interlock.durable.typed import Typed
from interlock.errors import ActivityFailed, DurableError, OrchestrationCancelled, OrchestrationFailed

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

Task = dict[str, Any]
"""A task in the engine's own format."""
Turns = Generator[Task, Any, O]

_SOON = 0.2


@dataclass(frozen=True)
class Winner:
    """The result of `Run.race`. `index` is the position of the first step that ended, `value` its result."""

    index: int
    value: Any


class Step(Generic[O]):
    """A step of an orchestration.

    It runs when it is awaited, alone or together with others in `Run.all` and `Run.race`.
    """

    def __init__(self, task: Task, result: Typed[O] | None, retry: Retry = ONCE) -> None:
        self.task = task
        self._result = result
        self._retry = retry
        self._failures = 0

    def __await__(self) -> Turns[O]:
        while True:
            try:
                answer = yield self.task
            except Exception as error:
                if pause := self.pause_after(ActivityFailure.read(str(error))):
                    yield _timer(pause)
            else:
                return self.read(answer)

    def pause_after(self, failure: ActivityFailure) -> float:
        """Returns the pause before the next attempt. Raises the step's error if there is no next attempt.

        An interrupted attempt does not count.
        """
        if failure.interrupted:
            return _SOON
        self._failures += 1
        pause = self._retry.pause(self._failures) if failure.retry else None
        if pause is None:
            raise self.error(failure) from None
        return pause

    def read(self, answer: Any) -> O:
        return self._result.load(answer) if self._result else cast(O, answer)

    def error(self, failure: ActivityFailure) -> DurableError:
        return DurableError(failure.message, code=failure.code)


class _Call(Step[O]):
    def error(self, failure: ActivityFailure) -> DurableError:
        name = self.task["name"]
        return ActivityFailed(f"The activity {name!r} failed: {failure.message}", activity=name, code=failure.code)


class _Child(Step[O]):
    def error(self, failure: ActivityFailure) -> DurableError:
        return end_error(self.task["instanceId"], failure)


class _Now(Step[datetime]):
    def read(self, answer: Any) -> datetime:
        return datetime.fromtimestamp(int(answer) / 1000, UTC)


class _Guid(Step[uuid.UUID]):
    def read(self, answer: Any) -> uuid.UUID:
        return uuid.UUID(str(answer))


class _All(Step[Any]):
    """Runs in rounds: steps that failed and may be retried go into the next round."""

    def __init__(self, steps: "tuple[Step[Any], ...]") -> None:
        self._steps = steps

    def __await__(self) -> Turns[Any]:
        results: dict[int, Any] = {}
        while missing := [index for index in range(len(self._steps)) if index not in results]:
            answers = yield {"type": "join", "tasks": [self._steps[index].task for index in missing]}
            pause = 0.0
            for index, answer in zip(missing, answers, strict=True):
                if "err" in answer:
                    pause = max(pause, self._steps[index].pause_after(ActivityFailure.read(str(answer["err"]))))
                else:
                    results[index] = self._steps[index].read(answer.get("ok"))
            if pause:
                yield _timer(pause)
        return tuple(results[index] for index in range(len(self._steps)))


class _Race(Step[Winner]):
    def __init__(self, steps: "tuple[Step[Any], ...]") -> None:
        self._steps = steps

    def __await__(self) -> Turns[Winner]:
        answer = yield {"type": "select", "tasks": [step.task for step in self._steps]}
        index = int(answer["index"])
        return Winner(index, self._steps[index].read(answer["value"]))


class Run:
    """One run of an orchestration: the argument of its function. `execution` grows with each `continue_as_new`."""

    def __init__(self, orchestration: Orchestration[Any, Any], id: str, root: str, execution: int) -> None:  # noqa: A002
        self.id = id
        self.execution = execution
        self.version = orchestration.version
        self._orchestration = orchestration
        self._root = root
        self._steps = 0

    def call(self, activity: Activity[I, O], value: I, *, retry: Retry | None = None) -> Step[O]:
        """Run an activity, with its own retry policy or with `retry`."""
        content = {"root": self._root, "step": self._next(), "input": activity.input.dump(value)}
        task = {"type": "activity", "name": activity.name, "input": json.dumps(content)}
        return _Call(task, activity.output, retry or activity.retry)

    def child(self, orchestration: Orchestration[I, O], value: I, *, id: str | None = None) -> Step[O]:  # noqa: A002
        """Run another orchestration as a step of this one. An `id` has to be unique in the whole database."""
        task = {
            "type": "subOrchestrationVersionedWithId",
            "name": orchestration.name,
            "version": orchestration.version,
            "instanceId": id or f"{self.id}/{self.execution}.{self._next()}",
            "input": engine_input(self._root, orchestration.input.dump(value)),
        }
        return _Child(task, orchestration.output)

    def sleep(self, duration: Duration) -> Step[None]:
        """Pause. The timer outlives every replica."""
        return Step(_timer(seconds(duration)), None)

    def event(self, name: str, kind: type[O]) -> Step[O]:
        """Wait for the next event with that name, in the order of sending. No event is lost."""
        return Step({"type": "dequeueEvent", "queueName": name}, Typed(kind, f"The event {name!r}"))

    def now(self) -> Step[datetime]:
        """Returns the time at which the orchestration first reached this step."""
        return _Now({"type": "utcNow"}, None)

    def uuid(self) -> Step[uuid.UUID]:
        """Returns a random UUID, the same at every turn."""
        return _Guid({"type": "newGuid"}, None)

    @overload
    def all(self, first: Step[A], second: Step[B], /) -> Step[tuple[A, B]]: ...
    @overload
    def all(self, first: Step[A], second: Step[B], third: Step[C], /) -> Step[tuple[A, B, C]]: ...
    @overload
    def all(self, *steps: Step[O]) -> Step[tuple[O, ...]]: ...
    def all(self, *steps: Step[Any]) -> Step[Any]:
        """Run steps concurrently, each with its own retry policy.

        If a step fails for good, its error is raised when the current attempts of the other steps have ended.
        """
        return _All(steps)

    def race(self, *steps: Step[Any]) -> Step[Winner]:
        """Run steps concurrently until the first one ends, even if it fails.

        The others are cancelled. No step is retried.
        """
        return _Race(steps)

    async def continue_as_new(self, value: Any) -> Never:
        """Start again with the input `value` and an empty history, for endless orchestrations.

        Unread events are kept.
        """
        content = engine_input(self._root, self._orchestration.input.dump(value))
        await Step({"type": "continueAsNew", "input": content}, None)
        raise AssertionError("The engine went on with an orchestration that was continued as new.")

    def _next(self) -> int:
        self._steps += 1
        return self._steps


def engine_input(root: str, plain: Any) -> str:
    """Returns the engine's input for an orchestration. `root` is the recorded orchestration that it belongs to."""
    return json.dumps({"root": root, "input": plain})


def end_error(id: str, failure: ActivityFailure) -> OrchestrationFailed | OrchestrationCancelled:  # noqa: A002
    if failure.code == "cancelled":
        return OrchestrationCancelled(
            f"The orchestration {id!r} was cancelled: {failure.message or 'no reason'}.", id=id
        )
    return OrchestrationFailed(f"The orchestration {id!r} failed: {failure.message}", id=id, code=failure.code)


def _timer(duration: float) -> Task:
    return {"type": "timer", "delayMs": max(0, round(duration * 1000))}
